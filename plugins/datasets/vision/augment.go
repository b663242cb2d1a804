package vision

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Augment holds the transforms of training images that follow crop and flip, in this order:
// RandAugment, colour jitter, normalisation, random erasing, and then mixup or cutmix. Parameters
// have torchvision's names and distributions, but are drawn with another generator.
type Augment struct {
	operations, magnitude int
	jitter                [4]float64 // largest changes of brightness, contrast, saturation, hue
	erase                 float64    // probability
	mixup, cutmix         float64    // alpha; 0: off
}

// AugmentOptions are the options of these transforms.
func AugmentOptions() []sdk.Option {
	none, one, most, strongest := 0.0, 1.0, 14.0, float64(bins-1)
	return []sdk.Option{
		{Name: "randaugment", Type: sdk.Int, Default: int64(0), Min: &none, Max: &most, Doc: "Number of random operations on each training image (Cubuk et al., 2019; usual: 2); 0: none."},
		{Name: "randaugment_magnitude", Type: sdk.Int, Default: int64(9), Min: &none, Max: &strongest, Doc: "Strength of these operations, of 0 to 30."},
		{Name: "color_jitter", Type: sdk.FloatList, Min: &none, Doc: "Largest changes of brightness, contrast, saturation and hue (at most 0.5), such as [0.4, 0.4, 0.4, 0.1]."},
		{Name: "random_erasing", Type: sdk.Float, Default: 0.0, Min: &none, Max: &one, Doc: "Probability with which a rectangle of 2 to 33 % of a training image is set to 0 (Zhong et al., 2017; usual: 0.1)."},
		{Name: "mixup", Type: sdk.Float, Default: 0.0, Min: &none, Doc: "Alpha of mixup (Zhang et al., 2017; usual: 0.2): a training image and its target are blended with another's; 0: off."},
		{Name: "cutmix", Type: sdk.Float, Default: 0.0, Min: &none, Doc: "Alpha of CutMix (Yun et al., 2019; usual: 1): a rectangle comes from another training image; 0: off. With mixup, each is used half of the time."},
	}
}

// ParseAugment reads these options.
func ParseAugment(l *usererr.List, o sdk.Options) Augment {
	a := Augment{
		operations: int(o.Int("randaugment")), magnitude: int(o.Int("randaugment_magnitude")), erase: o.Float("random_erasing"),
		mixup: o.Float("mixup"), cutmix: o.Float("cutmix"),
	}
	if v := o.Floats("color_jitter"); o.Has("color_jitter") {
		if len(v) != 4 || v[3] > 0.5 {
			l.Addf("color_jitter", "write [brightness, contrast, saturation, hue], such as [0.4, 0.4, 0.4, 0.1]", "%v is not a list of four changes, of hue at most 0.5", v)
		} else {
			a.jitter = [4]float64(v)
		}
	}
	return a
}

// Pixels reports whether Image changes an image, and Mixes whether targets are probabilities.
func (a *Augment) Pixels() bool { return a.operations > 0 || a.jitter != [4]float64{} }

// Mixes reports whether images are mixed with others, so that targets are probabilities.
func (a *Augment) Mixes() bool { return a.mixup > 0 || a.cutmix > 0 }

// TargetSpec is the target of a sample: its class, or the probabilities of all classes.
func (a *Augment) TargetSpec(classes int) tensor.Spec {
	if a.Mixes() {
		return tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{classes}}
	}
	return tensor.Spec{DType: tensor.I32}
}

// Partners lists the training images that others are mixed with, so that samples held out for
// validation are never trained on; nil: all of them. classes are those of all training images.
func (a *Augment) Partners(req sdk.DatasetRequest, classes []int32) ([]int64, error) {
	if req.HeldOut == 0 || !a.Mixes() {
		return nil, nil
	}
	train, _, err := sdk.HoldOut(len(classes), req.HeldOut, req.Seed, classes)
	return train, err
}

// Each stage draws from a stream of its own, so that switching one on does not change another.
const (
	pixelStream = 0x706978656c73
	eraseStream = 0x6572617365
	mixStream   = 0x6d6978
)

// Image applies the transforms of pixels to a sample's image.
func (a *Augment) Image(m *Image, seed uint64, epoch int, index int64) {
	r := NewSource(seed^pixelStream, epoch, index)
	for range a.operations {
		a.operation(m, &r)
	}
	if a.jitter != [4]float64{} {
		a.jitterOf(m, &r)
	}
}

// bins is the number of RandAugment's strengths.
const bins = 31

// operation applies one of RandAugment's operations, as torchvision.transforms.RandAugment defines them.
func (a *Augment) operation(m *Image, r *Source) {
	op, flip := r.Below(14), r.Coin()
	share := float64(a.magnitude) / (bins - 1)
	signed := func(most float64) float64 {
		if flip {
			return -share * most
		}
		return share * most
	}
	switch op {
	case 0: // identity
	case 1:
		m.Shear(signed(0.3), 0)
	case 2:
		m.Shear(0, signed(0.3))
	case 3:
		m.Translate(int(signed(150.0/331*float64(m.Width))), 0)
	case 4:
		m.Translate(0, int(signed(150.0/331*float64(m.Height))))
	case 5:
		m.Rotate(signed(30))
	case 6:
		m.Brightness(1 + signed(0.9))
	case 7:
		m.Saturation(1 + signed(0.9))
	case 8:
		m.Contrast(1 + signed(0.9))
	case 9:
		m.Sharpness(1 + signed(0.9))
	case 10:
		m.Posterize(8 - int(math.RoundToEven(4*share)))
	case 11:
		m.Solarize(255 * (1 - share))
	case 12:
		m.AutoContrast()
	case 13:
		m.Equalize()
	}
}

// jitterOf is torchvision.transforms.ColorJitter: its four changes in random order.
func (a *Augment) jitterOf(m *Image, r *Source) {
	order := [4]int{0, 1, 2, 3}
	for i := len(order) - 1; i > 0; i-- {
		j := r.Below(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	for _, which := range order {
		most := a.jitter[which]
		if most == 0 {
			continue
		}
		factor := r.Uniform(max(0, 1-most), 1+most)
		switch which {
		case 0:
			m.Brightness(factor)
		case 1:
			m.Contrast(factor)
		case 2:
			m.Saturation(factor)
		case 3:
			m.Hue(r.Uniform(-most, most))
		}
	}
}

// Erase sets a random rectangle of normalised planes to 0, as torchvision.transforms.RandomErasing does.
func (a *Augment) Erase(planes []float32, width, height int, seed uint64, epoch int, index int64) {
	if a.erase == 0 {
		return
	}
	r := NewSource(seed^eraseStream, epoch, index)
	if r.Uniform(0, 1) >= a.erase {
		return
	}
	for range 10 {
		area, ratio := float64(width*height)*r.Uniform(0.02, 0.33), math.Exp(r.Uniform(math.Log(0.3), math.Log(3.3)))
		h, w := int(math.RoundToEven(math.Sqrt(area*ratio))), int(math.RoundToEven(math.Sqrt(area/ratio)))
		if h < height && w < width {
			b := box{x: r.Below(width - w + 1), y: r.Below(height - h + 1)}
			b.right, b.bottom = b.x+w, b.y+h
			b.rows(len(planes), width, height, func(from, to int) { clear(planes[from:to]) })
			return
		}
	}
}

// box is a rectangle of an image.
type box struct{ x, y, right, bottom int }

// rows calls f with the range of each of the box's rows in all planes, which have so many elements.
func (b box) rows(elems, width, height int, f func(from, to int)) {
	for plane := 0; plane < elems; plane += width * height {
		for y := b.y; y < b.bottom; y++ {
			row := plane + y*width
			f(row+b.x, row+b.right)
		}
	}
}

// Sample is an image with its normalised planes, and room for those of another one.
type Sample struct {
	Index         int64
	Class         int32
	Planes        []float32
	Partner       []float32 // as long as Planes where images are mixed
	Width, Height int
}

// Target writes the target of a sample, after it has mixed its image with another one, which read puts
// into Partner: one of the given partners, or without them of the n training images.
func (a *Augment) Target(b *sdk.Batch, dst []byte, s Sample, partners []int64, n int, read func(index int64) (class int32, err error)) error {
	switch {
	case !a.Mixes():
		tensor.View[int32](dst)[0] = s.Class
	case b.Split != sdk.Train || b.NoAugment:
		oneHot(tensor.View[float32](dst), s.Class)
	default:
		if partners != nil {
			n = len(partners)
		}
		m := a.Mix(n, s.Width, s.Height, b.Seed, b.Epoch, s.Index)
		if partners != nil {
			m.Partner = partners[m.Partner]
		}
		class, err := read(m.Partner)
		if err != nil {
			return err
		}
		m.Apply(s.Planes, s.Partner, s.Width, s.Height)
		m.Target(tensor.View[float32](dst), s.Class, class)
	}
	return nil
}

// Mix says which training image a sample is mixed with, and how.
type Mix struct {
	Partner int64
	share   float32 // of the sample itself
	cut     *box    // nil: the images are blended
}

// Mix draws the mix of a sample, one of n, with images of the given size. The partner depends on
// the sample alone, not on its batch, so that it is the same on any number of ranks.
func (a *Augment) Mix(n, width, height int, seed uint64, epoch int, index int64) Mix {
	r := NewSource(seed^mixStream, epoch, index)
	m := Mix{Partner: int64(r.Below(n))}
	alpha, cut := a.mixup, a.cutmix > 0 && (a.mixup == 0 || r.Coin())
	if cut {
		alpha = a.cutmix
	}
	share := r.beta(alpha)
	m.share = float32(share)
	if cut {
		m.cut = cutBox(share, r.Below(width), r.Below(height), width, height)
		m.share = float32(1 - float64((m.cut.right-m.cut.x)*(m.cut.bottom-m.cut.y))/float64(width*height))
	}
	return m
}

// cutBox is the rectangle around a point that leaves a share of the image, as
// torchvision.transforms.v2.CutMix has it: what lies outside of the image is cut off.
func cutBox(share float64, x, y, width, height int) *box {
	half := 0.5 * math.Sqrt(1-share)
	w, h := int(half*float64(width)), int(half*float64(height))
	return &box{x: max(x-w, 0), y: max(y-h, 0), right: min(x+w, width), bottom: min(y+h, height)}
}

// Apply mixes the partner's planes into those of the sample.
func (m *Mix) Apply(planes, partner []float32, width, height int) {
	if m.cut != nil {
		m.cut.rows(len(planes), width, height, func(from, to int) { copy(planes[from:to], partner[from:to]) })
		return
	}
	for i, v := range partner {
		planes[i] = float32(m.share*planes[i]) + float32((1-m.share)*v)
	}
}

// Target writes the probabilities of a sample's classes.
func (m *Mix) Target(dst []float32, class, partner int32) {
	oneHot(dst, class)
	dst[class] = m.share
	dst[partner] += 1 - m.share
}

// oneHot writes 1 as the probability of a class and 0 for the others.
func oneHot(dst []float32, class int32) {
	clear(dst)
	dst[class] = 1
}

// beta draws from Beta(alpha, alpha), as the ratio of gamma variates.
func (s *Source) beta(alpha float64) float64 {
	x, y := s.logGamma(alpha), s.logGamma(alpha)
	return 1 / (1 + math.Exp(y-x))
}

// logGamma draws the logarithm of a gamma variate (Marsaglia and Tsang, 2000); of shapes below 1
// by Stuart's theorem, whose logarithm does not underflow.
func (s *Source) logGamma(shape float64) float64 {
	if shape < 1 {
		return s.logGamma(shape+1) + math.Log(1-s.Uniform(0, 1))/shape
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := math.Sqrt(-2*math.Log(1-s.Uniform(0, 1))) * math.Cos(2*math.Pi*s.Uniform(0, 1))
		v := 1 + c*x
		v *= v * v
		if v > 0 && math.Log(1-s.Uniform(0, 1)) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return math.Log(d * v)
		}
	}
}

// String describes the transforms, for messages and tests.
func (a Augment) String() string {
	return fmt.Sprintf("randaugment %d×%d, jitter %v, erase %v, mixup %v, cutmix %v", a.operations, a.magnitude, a.jitter, a.erase, a.mixup, a.cutmix)
}
