package imagefolder

import (
	"image"
	"image/color"

	imagekernel "github.com/trainctl/trainctl/core/engine/kernel/image"
)

// pack writes the part r of an image as pixels of package kernel. As in Pillow's
// convert("RGB"), grey is repeated, alpha is dropped without blending, and 16-bit
// values lose their low byte.
func pack(dst []byte, img image.Image, r image.Rectangle) {
	switch img := img.(type) {
	case *image.YCbCr:
		packYCbCr(dst, img, r)
	case *image.Gray:
		packGray(dst, img, r)
	case *image.NRGBA:
		pack4(dst, img.Pix, img.Stride, r.Sub(img.Rect.Min))
	case *image.RGBA: // opaque, as produced by the decoders
		pack4(dst, img.Pix, img.Stride, r.Sub(img.Rect.Min))
	case *image.Paletted:
		packPaletted(dst, img, r)
	default:
		packAny(dst, img, r)
	}
}

// leastChroma is the smallest width of a halved colour plane that libjpeg
// interpolates; it repeats narrower ones (jinit_upsampler of its jdsample.c).
const leastChroma = 3

// packYCbCr interpolates colour planes of half the width, or half of both sides, as
// libjpeg does by default; images without such planes are converted directly.
func packYCbCr(dst []byte, img *image.YCbCr, r image.Rectangle) {
	const c = imagekernel.PixelBytes
	var halved, tall bool
	switch img.SubsampleRatio {
	case image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio440:
	case image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420:
		halved, tall = true, img.SubsampleRatio == image.YCbCrSubsampleRatio420
		if (img.Rect.Dx()+1)/2 < leastChroma {
			packRepeated(dst, img, r)
			return
		}
	default:
		packRepeated(dst, img, r)
		return
	}
	var cb, cr []byte
	var sums []uint16
	if halved {
		room := make([]byte, 2*r.Dx())
		cb, cr, sums = room[:r.Dx()], room[r.Dx():], make([]uint16, r.Dx()/2+4)
	}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		row, i, j := dst[:c*r.Dx()], img.YOffset(r.Min.X, y), img.COffset(r.Min.X, y)
		if halved {
			triangles(cb, img.Cb, img, r.Min.X, y, tall, sums)
			triangles(cr, img.Cr, img, r.Min.X, y, tall, sums)
			imagekernel.Colours(row, img.Y[i:i+r.Dx()], cb, cr)
		} else {
			imagekernel.Colours(row, img.Y[i:i+r.Dx()], img.Cb[j:], img.Cr[j:])
		}
		dst = dst[len(row):]
	}
}

// packRepeated gives every pixel the colour of its sample. It is used for narrow
// images and rare layouts.
func packRepeated(dst []byte, img *image.YCbCr, r image.Rectangle) {
	room := make([]byte, 2*r.Dx())
	cb, cr := room[:r.Dx()], room[r.Dx():]
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for k := range cb {
			j := img.COffset(r.Min.X+k, y)
			cb[k], cr[k] = img.Cb[j], img.Cr[j]
		}
		i := img.YOffset(r.Min.X, y)
		imagekernel.Colours(dst[:imagekernel.PixelBytes*r.Dx()], img.Y[i:i+r.Dx()], cb, cr)
		dst = dst[imagekernel.PixelBytes*r.Dx():]
	}
}

// triangles writes a row of a colour plane at full width, from pixel x of row y on:
// 3/4 of the nearer sample and 1/4 of the further one along each side that is
// halved, rounded up and down alternately, which libjpeg calls fancy upsampling. sums is
// room for len(dst)/2+4 numbers.
func triangles(dst, plane []byte, img *image.YCbCr, x, y int, tall bool, sums []uint16) {
	x, y = x-img.Rect.Min.X, y-img.Rect.Min.Y
	first, n := x/2, (x+len(dst)+1)/2-x/2 // the samples that the pixels lie in
	sums = sums[:n+2]                     // and one on either side
	even, odd := uint16(4), uint16(8)
	if tall {
		even, odd = 8, 7
	}
	sumColumns(sums, plane, img, first-1, y, tall)
	if x&1 == 1 {
		dst[0] = byte((3*sums[1] + sums[2] + odd) >> 4)
		dst, sums = dst[1:], sums[1:]
	}
	for ; len(dst) >= 2; dst, sums = dst[2:], sums[1:] {
		s := sums[:3:3]
		dst[0], dst[1] = byte((3*s[1]+s[0]+even)>>4), byte((3*s[1]+s[2]+odd)>>4)
	}
	if len(dst) > 0 {
		dst[0] = byte((3*sums[1] + sums[0] + even) >> 4)
	}
}

// sumColumns gives four times the samples of a colour plane for row y from sample first
// on: three of the nearer row and one of the further, if the rows are halved. Beyond
// the edges they are those at the edge.
func sumColumns(sums []uint16, plane []byte, img *image.YCbCr, first, y int, tall bool) {
	w, h := (img.Rect.Dx()+1)/2, (img.Rect.Dy()+1)/2
	from, to := max(first, 0), min(first+len(sums), w)
	near, far := y, y
	if tall {
		near, far = y/2, max(0, min(y/2-1+2*(y&1), h-1))
	}
	a, b, inside := plane[near*img.CStride:][from:to], plane[far*img.CStride:][from:to], sums[from-first:to-first]
	for i, v := range a {
		inside[i] = 3*uint16(v) + uint16(b[i])
	}
	if from > first {
		sums[0] = sums[1]
	}
	if k := len(sums); to < first+k {
		sums[k-1] = sums[k-2]
	}
}

func packGray(dst []byte, img *image.Gray, r image.Rectangle) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		row := img.Pix[img.PixOffset(r.Min.X, y):][:r.Dx()]
		for _, v := range row {
			o := dst[:3:3]
			o[0], o[1], o[2] = v, v, v
			dst = dst[imagekernel.PixelBytes:]
		}
	}
}

func pack4(dst, pix []byte, stride int, r image.Rectangle) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		dst = dst[copy(dst, pix[y*stride+4*r.Min.X:][:4*r.Dx()]):]
	}
}

func packPaletted(dst []byte, img *image.Paletted, r image.Rectangle) {
	var table [256][3]byte
	for i, c := range img.Palette {
		n, ok := c.(color.NRGBA) // keeps its colour when transparent
		if !ok {
			n = color.NRGBAModel.Convert(c).(color.NRGBA)
		}
		table[i] = [3]byte{n.R, n.G, n.B}
	}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for _, i := range img.Pix[img.PixOffset(r.Min.X, y):][:r.Dx()] {
			copy(dst, table[i][:])
			dst = dst[imagekernel.PixelBytes:]
		}
	}
}

func packAny(dst []byte, img image.Image, r image.Rectangle) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			c := color.NRGBA64Model.Convert(img.At(x, y)).(color.NRGBA64)
			dst[0], dst[1], dst[2] = byte(c.R>>8), byte(c.G>>8), byte(c.B>>8)
			dst = dst[imagekernel.PixelBytes:]
		}
	}
}
