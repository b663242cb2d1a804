package vision

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/kernel/image"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Store has the images of a data set in memory, as planes of bytes.
type Store interface {
	// Samples is the number of samples of a split.
	Samples(split sdk.Split) int

	// Sample returns the planes of an image, valid until the next call, and its class. room has
	// space for the planes of an image that is made on request.
	Sample(split sdk.Split, index int, room []byte) (planes []byte, class int32)
}

// Small writes the batches of a data set of small square images, such as MNIST and CIFAR-10.
type Small struct {
	Name     string // of the data set, for messages
	Store    Store
	Side     int             // width and height of an image
	Levels   []*image.Levels // of each channel
	Classes  int
	Crop     bool // training images: a random crop with a black border of 4 pixels
	Flip     bool // and mirrored half of the time
	More     Augment
	Partners []int64 // training samples that others are mixed with; nil: all

	image   *Image    // current image
	room    []byte    // for its planes
	partner []float32 // the sample that another one is mixed with
}

// border is the width of the black border, on each side, that a crop may include.
const border = 4

// StandardAugment is the option augment of such data sets; doc says what "standard" is.
func StandardAugment(doc string) sdk.Option {
	return sdk.Option{Name: "augment", Type: sdk.String, Default: augmentNone, Enum: []string{augmentNone, augmentStandard}, Doc: "Training augmentation: none, or " + doc}
}

// Values of the option augment.
const (
	augmentNone     = "none"
	augmentStandard = "standard"
)

// Standard reports whether the option augment asks for more than none.
func Standard(o sdk.Options) bool { return o.String("augment") == augmentStandard }

// CheckGrey refuses what images of one channel do not have.
func (a *Augment) CheckGrey(l *usererr.List) {
	if a.jitter[2] != 0 || a.jitter[3] != 0 {
		l.Addf("color_jitter", "write 0 for both, such as [0.4, 0.4, 0, 0]", "the images are grey: they have neither saturation nor hue")
	}
}

func (s *Small) elems() int { return len(s.Levels) * s.Side * s.Side }

// Spec is the input and the target of a sample.
func (s *Small) Spec() (input, target tensor.Spec) {
	return tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{len(s.Levels), s.Side, s.Side}}, s.More.TargetSpec(s.Classes)
}

// ErrNotOpen is the error of Fill before Open and after Close.
var ErrNotOpen = errors.New("the data set is not open")

// Fill writes images as float32 [channels, side, side] and classes as int32, or as probabilities if
// images are mixed. It allocates nothing after the first call.
func (s *Small) Fill(ctx context.Context, b *sdk.Batch) error {
	if s == nil || b.Split > sdk.Test {
		return ErrNotOpen
	}
	if s.image == nil {
		s.image, s.room, s.partner = NewImage(s.Side, s.Side, len(s.Levels)), make([]byte, s.elems()), make([]float32, s.elems())
	}
	in, out := s.Spec()
	n, elems, each := len(b.Indices), s.elems(), out.Bytes()
	if len(b.Input) != n*in.Bytes() || len(b.Target) != n*each {
		return fmt.Errorf("%s: %d samples need %d and %d bytes, the batch has %d and %d", s.Name, n, n*in.Bytes(), n*each, len(b.Input), len(b.Target))
	}
	input, samples := tensor.View[float32](b.Input), s.Store.Samples(b.Split)
	for i, index := range b.Indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		if index < 0 || index >= int64(samples) {
			return fmt.Errorf("%s: index %d is out of range for %d samples", s.Name, index, samples)
		}
		planes := input[i*elems : (i+1)*elems]
		read := Sample{Index: index, Class: s.sample(b, planes, index), Planes: planes, Partner: s.partner, Width: s.Side, Height: s.Side}
		if err := s.More.Target(b, b.Target[i*each:(i+1)*each], read, s.Partners, samples, func(other int64) (int32, error) { return s.sample(b, s.partner, other), nil }); err != nil {
			return err
		}
	}
	return nil
}

// sample writes an image and returns its class.
func (s *Small) sample(b *sdk.Batch, out []float32, index int64) int32 {
	planes, class := s.Store.Sample(b.Split, int(index), s.room)
	training, size := b.Split == sdk.Train && !b.NoAugment, s.Side*s.Side
	v := view{x: border, y: border}
	if s.Crop && training {
		v = randomView(s.Flip, b.Seed, b.Epoch, index)
	}
	changed := training && s.More.Pixels()
	for c, p := range s.image.Planes {
		in := planes[c*size:][:size]
		if changed || v != (view{x: border, y: border}) {
			v.cut(p, in, s.Side)
			in = p
		}
		if !changed {
			s.Levels[c].Convert(out[c*size:], in)
		}
	}
	if changed {
		s.More.Image(s.image, b.Seed, b.Epoch, index)
		for c, p := range s.image.Planes {
			s.Levels[c].Convert(out[c*size:], p)
		}
	}
	if training {
		s.More.Erase(out, s.Side, s.Side, b.Seed, b.Epoch, index)
	}
	return class
}

// view is the crop of an image with its border, given by its upper left corner; (border, border)
// is the image itself. The border is black before normalisation, since torchvision pads images
// before ToTensor.
type view struct {
	x, y int
	flip bool // mirror left and right, after the crop
}

// randomView is the usual augmentation for CIFAR-10 (He et al., 2015): a random crop, mirrored half
// of the time.
func randomView(flip bool, seed uint64, epoch int, index int64) view {
	r := NewSource(seed, epoch, index)
	v := view{x: r.Below(2*border + 1), y: r.Below(2*border + 1)}
	v.flip = flip && r.Coin()
	return v
}

// cut copies the crop from a plane.
func (v view) cut(out, in []byte, side int) {
	clear(out)
	shift := v.x - border
	lo, hi := max(0, -shift), min(side, side-shift)
	for y := max(0, border-v.y); y < min(side, side+border-v.y); y++ {
		row := out[y*side:][:side]
		copy(row[lo:hi], in[(y+v.y-border)*side+lo+shift:])
		if v.flip {
			mirror(row)
		}
	}
}

// mirror reverses a row, eight pixels at a time.
func mirror(row []byte) {
	le, i, j := binary.LittleEndian, 0, len(row)-8
	for ; i+8 <= j; i, j = i+8, j-8 {
		a, b := le.Uint64(row[i:]), le.Uint64(row[j:])
		le.PutUint64(row[i:], bits.ReverseBytes64(b))
		le.PutUint64(row[j:], bits.ReverseBytes64(a))
	}
	slices.Reverse(row[i : j+8])
}
