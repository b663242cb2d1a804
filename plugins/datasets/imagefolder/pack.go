package imagefolder

import (
	"image"
	"image/color"

	"github.com/trainctl/trainctl/core/engine/kernel"
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

// packYCbCr interpolates colour planes of half the width, or half of both sides, as
// libjpeg does by default; images without such planes are converted as they lie.
func packYCbCr(dst []byte, img *image.YCbCr, r image.Rectangle) {
	const c = kernel.PixelBytes
	var halved, tall bool
	switch img.SubsampleRatio {
	case image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio440:
	case image.YCbCrSubsampleRatio422:
		halved = true
	case image.YCbCrSubsampleRatio420:
		halved, tall = true, true
	default:
		packAsColours(dst, img, r)
		return
	}
	var cb, cr []byte
	if halved {
		room := make([]byte, 2*r.Dx())
		cb, cr = room[:r.Dx()], room[r.Dx():]
	}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		row, i, j := dst[:c*r.Dx()], img.YOffset(r.Min.X, y), img.COffset(r.Min.X, y)
		if halved {
			triangles(cb, img.Cb, img, r.Min.X, y, tall)
			triangles(cr, img.Cr, img, r.Min.X, y, tall)
			kernel.Colours(row, img.Y[i:i+r.Dx()], cb, cr, false)
		} else {
			kernel.Colours(row, img.Y[i:i+r.Dx()], img.Cb[j:], img.Cr[j:], false)
		}
		dst = dst[len(row):]
	}
}

// packAsColours is for layouts that are rare.
func packAsColours(dst []byte, img *image.YCbCr, r image.Rectangle) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			i, j := img.YOffset(x, y), img.COffset(x, y)
			dst[0], dst[1], dst[2] = color.YCbCrToRGB(img.Y[i], img.Cb[j], img.Cr[j])
			dst = dst[kernel.PixelBytes:]
		}
	}
}

// triangles writes a row of a colour plane at full width, from pixel x of row y on:
// 3/4 of the nearer sample and 1/4 of the further one along each side that is
// halved, rounded up and down in turn, which libjpeg calls fancy upsampling.
func triangles(dst, plane []byte, img *image.YCbCr, x, y int, tall bool) {
	full := img.Rect
	w, h := (full.Dx()+1)/2, (full.Dy()+1)/2
	x, y = x-full.Min.X, y-full.Min.Y
	var near, far []byte
	scale, shift := 1, 2
	if !tall {
		near = plane[y*img.CStride:][:w]
	} else {
		scale, shift = 4, 4
		near = plane[y/2*img.CStride:][:w]
		far = plane[max(0, min(y/2-1+2*(y&1), h-1))*img.CStride:][:w]
	}
	column := func(i int) int {
		if tall {
			return 3*int(near[i]) + int(far[i])
		}
		return int(near[i])
	}
	for i := range dst {
		at := x + i
		mid, side, half := column(at/2), at/2-1+2*(at&1), 2*scale-scale/4*(at&1)
		if !tall {
			half = 1 + at&1
		}
		if side < 0 || side >= w {
			side = at / 2
		}
		dst[i] = byte((3*mid + column(side) + half) >> shift)
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
