// Package jpeg decodes the JPEG images that most are, twice as fast as
// image/jpeg and to the same pixels: baseline, grey or YCbCr, in one scan. It
// refuses all others, and whatever is not quite as it should be, so that
// image/jpeg can decode it or say what is wrong.
//
// References are to ITU-T T.81, the standard.
package jpeg

import (
	"encoding/binary"
	"image"

	"github.com/trainctl/trainctl/core/kernel"
)

// Decoder decodes one image after the other. Its memory is used again, and so
// are the pixels of what it returned.
type Decoder struct {
	file   []byte // from the first entropy-coded byte on, once open
	size   image.Point
	comps  []component
	quants [4]*[kernel.BlockSize]int32
	tables [2][2]*huffman // by class and destination
	spare  [4]huffman
	used   int
	every  int // MCUs between restarts; 0: none
	jfif   bool
	adobe  byte // transform of the marker of that name; absent: none
	grey   image.Gray
	colour image.YCbCr
	room   [3][]byte
	coefs  [kernel.BlockSize]int32
	quant  [4][kernel.BlockSize]int32
}

type component struct {
	id     byte
	h, v   int // blocks of an MCU
	quant  *[kernel.BlockSize]int32
	number byte // of the quantization table
	dc, ac *huffman
	pred   int32
	plane  []byte
	stride int
}

// noAdobe says that there was no marker of Adobe's.
const noAdobe = 0xff

// Markers (table B.1).
const (
	sof0 = 0xc0
	dht  = 0xc4
	rst0 = 0xd0
	soi  = 0xd8
	eoi  = 0xd9
	sos  = 0xda
	dqt  = 0xdb
	dri  = 0xdd
	app0 = 0xe0
	appE = 0xee
	appF = 0xef
	com  = 0xfe
)

// Open reads a file up to its pixels and gives the size of the image. The bytes
// are read until Decode returns. It reports false for what Decode would refuse.
func (d *Decoder) Open(file []byte) (size image.Point, ok bool) {
	if !kernel.HasInverseDCT() || len(file) < 2 || file[0] != 0xff || file[1] != soi {
		return size, false
	}
	d.comps, d.used, d.every, d.jfif, d.adobe = d.comps[:0], 0, 0, false, noAdobe
	d.quants, d.tables = [4]*[kernel.BlockSize]int32{}, [2][2]*huffman{}
	for rest := file[2:]; len(rest) >= 4 && rest[0] == 0xff; {
		n := int(binary.BigEndian.Uint16(rest[2:]))
		if n < 2 || n+2 > len(rest) {
			return size, false
		}
		marker, body := rest[1], rest[4:n+2]
		rest = rest[n+2:]
		if marker == sos {
			d.file = rest
			return d.size, d.scan(body)
		}
		if !d.segment(marker, body) {
			return size, false
		}
	}
	return size, false
}

func (d *Decoder) segment(marker byte, b []byte) bool {
	switch {
	case marker == sof0:
		return d.frame(b)
	case marker == dht:
		return d.huffmans(b)
	case marker == dqt:
		return d.quantizers(b)
	case marker == dri:
		if len(b) != 2 {
			return false
		}
		d.every = int(binary.BigEndian.Uint16(b))
	case marker == app0:
		d.jfif = d.jfif || len(b) >= 5 && string(b[:5]) == "JFIF\x00"
	case marker == appE && len(b) >= 12 && string(b[:5]) == "Adobe":
		d.adobe = b[11]
	default:
		return app0 <= marker && marker <= appF || marker == com
	}
	return true
}

// frame reads B.2.2: precision, height, width, components.
func (d *Decoder) frame(b []byte) bool {
	if len(d.comps) > 0 || len(b) < 6 || b[0] != 8 || len(b) != 6+3*int(b[5]) {
		return false
	}
	d.size = image.Pt(int(binary.BigEndian.Uint16(b[3:])), int(binary.BigEndian.Uint16(b[1:])))
	if n := int(b[5]); d.size.X == 0 || d.size.Y == 0 || n != 1 && n != 3 {
		return false
	}
	for i := 6; i < len(b); i += 3 {
		c := component{id: b[i], h: int(b[i+1] >> 4), v: int(b[i+1] & 15), number: b[i+2]}
		if c.number > 3 {
			return false
		}
		d.comps = append(d.comps, c)
	}
	if len(d.comps) == 1 {
		d.comps[0].h, d.comps[0].v = 1, 1 // a scan of one component is not interleaved
		return true
	}
	y, cb, cr := &d.comps[0], &d.comps[1], &d.comps[2]
	return y.id != cb.id && cb.id != cr.id && y.id != cr.id &&
		(y.h == 1 || y.h == 2) && (y.v == 1 || y.v == 2) && cb.h == 1 && cb.v == 1 && cr.h == 1 && cr.v == 1
}

// red, green and blue are told by Adobe's marker or the components' names.
func (d *Decoder) isRGB() bool {
	return len(d.comps) == 3 && !d.jfif && (d.adobe == 0 || d.comps[0].id == 'R' && d.comps[1].id == 'G' && d.comps[2].id == 'B')
}

// quantizers reads B.2.4.1.
func (d *Decoder) quantizers(b []byte) bool {
	for len(b) > 0 {
		wide, to, size := b[0]>>4, b[0]&15, kernel.BlockSize
		if wide == 1 {
			size *= 2
		}
		if wide > 1 || to > 3 || len(b) < 1+size {
			return false
		}
		for k := range d.quant[to] {
			if wide == 1 {
				d.quant[to][k] = int32(binary.BigEndian.Uint16(b[1+2*k:]))
			} else {
				d.quant[to][k] = int32(b[1+k])
			}
		}
		d.quants[to] = &d.quant[to]
		b = b[1+size:]
	}
	return true
}

// scan reads B.2.3 of a scan that has everything.
func (d *Decoder) scan(b []byte) bool {
	n := len(d.comps)
	if n == 0 || len(b) != 4+2*n || int(b[0]) != n || d.isRGB() {
		return false
	}
	for i := range d.comps {
		c, id, dc, ac := &d.comps[i], b[1+2*i], b[2+2*i]>>4, b[2+2*i]&15
		if id != c.id || dc > 1 || ac > 1 {
			return false
		}
		c.quant, c.dc, c.ac = d.quants[c.number], d.tables[0][dc], d.tables[1][ac]
		if c.quant == nil || c.dc == nil || c.ac == nil {
			return false
		}
	}
	return true
}

// picture makes the image that the planes belong to.
func (d *Decoder) picture() image.Image {
	r := image.Rectangle{Max: d.size}
	if len(d.comps) == 1 {
		d.grey = image.Gray{Pix: d.comps[0].plane, Stride: d.comps[0].stride, Rect: r}
		return &d.grey
	}
	y, cb, cr := &d.comps[0], &d.comps[1], &d.comps[2]
	d.colour = image.YCbCr{Y: y.plane, Cb: cb.plane, Cr: cr.plane, YStride: y.stride, CStride: cb.stride, Rect: r}
	d.colour.SubsampleRatio = [2][2]image.YCbCrSubsampleRatio{
		{image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio440}, {image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420},
	}[y.h-1][y.v-1]
	return &d.colour
}
