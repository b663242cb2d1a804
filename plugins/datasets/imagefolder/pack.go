package imagefolder

import (
	"image"
	"image/color"

	"github.com/trainctl/trainctl/core/kernel"
)

// pack writes the part r of an image as pixels of package kernel. As
// with Pillow's convert("RGB") grey is repeated, and opacity is dropped without
// blending; 16-bit values lose their low byte.
func pack(dst []byte, img image.Image, r image.Rectangle) {
	switch img := img.(type) {
	case *image.YCbCr:
		packYCbCr(dst, img, r)
	case *image.Gray:
		packGray(dst, img, r)
	case *image.NRGBA:
		pack4(dst, img.Pix, img.Stride, r.Sub(img.Rect.Min))
	case *image.RGBA: // opaque, as the decoders make it
		pack4(dst, img.Pix, img.Stride, r.Sub(img.Rect.Min))
	case *image.Paletted:
		packPaletted(dst, img, r)
	default:
		packAny(dst, img, r)
	}
}

func packYCbCr(dst []byte, img *image.YCbCr, r image.Rectangle) {
	const c = kernel.PixelBytes
	shared, whole := false, 0 // pixels from whole on are converted by rows
	switch img.SubsampleRatio {
	case image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio440:
	case image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420:
		shared, whole = true, r.Min.X&1 // from the first of two that share chroma
	default:
		whole = r.Dx()
	}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		row := dst[:c*r.Dx()]
		for i := range min(whole, r.Dx()) {
			yi, ci := img.YOffset(r.Min.X+i, y), img.COffset(r.Min.X+i, y)
			o := row[c*i:][:c]
			o[0], o[1], o[2] = color.YCbCrToRGB(img.Y[yi], img.Cb[ci], img.Cr[ci])
		}
		if x := r.Min.X + whole; x < r.Max.X {
			i, j := img.YOffset(x, y), img.COffset(x, y)
			kernel.Colours(row[c*whole:], img.Y[i:i+r.Max.X-x], img.Cb[j:], img.Cr[j:], shared)
		}
		dst = dst[len(row):]
	}
}

func packGray(dst []byte, img *image.Gray, r image.Rectangle) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		row := img.Pix[img.PixOffset(r.Min.X, y):][:r.Dx()]
		for _, v := range row {
			o := dst[:3:3]
			o[0], o[1], o[2] = v, v, v
			dst = dst[kernel.PixelBytes:]
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
			dst = dst[kernel.PixelBytes:]
		}
	}
}

func packAny(dst []byte, img image.Image, r image.Rectangle) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			c := color.NRGBA64Model.Convert(img.At(x, y)).(color.NRGBA64)
			dst[0], dst[1], dst[2] = byte(c.R>>8), byte(c.G>>8), byte(c.B>>8)
			dst = dst[kernel.PixelBytes:]
		}
	}
}
