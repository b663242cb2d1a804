package mnist

import (
	"bytes"

	"github.com/trainctl/trainctl/plugins/datasets/fetch"
)

// The four files, in the order used throughout this package.
const (
	trainImages = iota
	trainLabels
	testImages
	testLabels
	fileCount
)

var fileNames = [fileCount]string{
	"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
	"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
}

// variant holds the differences between MNIST and Fashion-MNIST.
type variant struct {
	name, title string
	home        string   // default of the option root
	folders     []string // names that it may have in a folder of data sets
	md5         [fileCount]string
	sites       []string // default of the option mirrors
	classes     []string
	first       []byte // first labels of the training set: they tell the two apart
	flip        bool   // mirrored images have the same classes
}

// MD5 sums of the gzip files: torchvision, torchvision/datasets/mnist.py.
var mnist = variant{
	name:    "mnist",
	title:   "MNIST",
	home:    "data/mnist",
	folders: []string{"mnist", "MNIST"},
	md5: [fileCount]string{
		"f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
		"9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c",
	},
	sites: []string{
		"https://ossci-datasets.s3.amazonaws.com/mnist/",
		"https://storage.googleapis.com/cvdf-datasets/mnist/",
	},
	classes: digitNames,
	first:   []byte{5, 0, 4, 1, 9, 2, 1, 3, 1, 4},
}

var fashion = variant{
	name:    "fashion-mnist",
	title:   "Fashion-MNIST",
	home:    "data/fashion-mnist",
	folders: []string{"fashion-mnist", "FashionMNIST"},
	classes: []string{"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"},
	md5: [fileCount]string{
		"8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
		"bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310",
	},
	sites: []string{"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
	first: []byte{9, 0, 0, 3, 0, 2, 7, 2, 5, 5},
	flip:  true,
}

var digitNames = []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// otherDataset returns the name of the other data set if the labels are its, else "".
// The files of the two have the same names, so their folders are easily confused.
func (v variant) otherDataset(labels []byte) string {
	for _, other := range []variant{mnist, fashion} {
		if other.name != v.name && len(labels) == 60000 && bytes.HasPrefix(labels, other.first) {
			return other.title
		}
	}
	return ""
}

// archives lists the gzip files that are missing in a folder.
func (v variant) archives(missing []int) []fetch.File {
	var f []fetch.File
	for _, i := range missing {
		f = append(f, fetch.File{Name: fileNames[i] + ".gz", MD5: v.md5[i]})
	}
	return f
}
