package cifar10

import (
	"strconv"

	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// The binary version: records of one byte for the class and 3·32·32 for the
// planes of red, green and blue, row by row, without a header
// (https://www.cs.toronto.edu/~kriz/cifar.html).
const (
	side        = 32
	imageBytes  = vision.Channels * side * side
	recordBytes = 1 + imageBytes
	fileRecords = 10000
	trainFiles  = 5
	fileCount   = trainFiles + 1
)

const (
	archive = "cifar-10-binary.tar.gz"
	folder  = "cifar-10-batches-bin" // folder in the archive
	site    = "https://www.cs.toronto.edu/~kriz/"
	// archiveMD5 is the sum of the archive on the data set's page. It verifies
	// downloads; an existing archive is verified by gzip's checksum.
	archiveMD5 = "c32a1d4ab5d03f1284b67883e8d87530"
)

// The Python version, as torchvision keeps it.
const (
	pickleArchive = "cifar-10-python.tar.gz"
	pickleFolder  = "cifar-10-batches-py"
)

// fileName is data_batch_1.bin to data_batch_5.bin, then test_batch.bin.
func fileName(i int) string {
	if i == trainFiles {
		return "test_batch.bin"
	}
	return "data_batch_" + strconv.Itoa(i+1) + ".bin"
}

var classNames = []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}
