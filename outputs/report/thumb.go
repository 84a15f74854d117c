package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"
)

// maxThumb is the longest side of a thumbnail in pixels; larger pictures are averaged down.
const maxThumb = 96

// Image is a small picture as PNG.
type Image struct {
	Width, Height int
	png           []byte
}

// URI is the picture as a data URI.
func (i Image) URI() template.URL {
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(i.png))
}

// maxPNG is the size of a picture that fits a page, in bytes.
const maxPNG = 512 << 10

// FromPNG takes a PNG file as it is. It fails for anything else, and above 512 KiB, to keep the page small.
func FromPNG(data []byte) (Image, error) {
	if len(data) > maxPNG {
		return Image{}, fmt.Errorf("it has %d KiB, a page takes %d", len(data)>>10, maxPNG>>10)
	}
	c, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return Image{}, fmt.Errorf("it is no PNG file: %w", err)
	}
	return Image{Width: c.Width, Height: c.Height, png: data}, nil
}

// layout is how a picture lies in a row-major list.
type layout struct {
	height, width, channels int
	planes                  bool // channels first
}

func layoutOf(shape []int) (layout, error) {
	colours := func(c int) bool { return c == 1 || c == 3 }
	switch {
	case len(shape) == 2:
		return layout{shape[0], shape[1], 1, true}, nil
	case len(shape) == 3 && colours(shape[0]):
		return layout{shape[1], shape[2], shape[0], true}, nil
	case len(shape) == 3 && colours(shape[2]):
		return layout{shape[0], shape[1], shape[2], false}, nil
	}
	return layout{}, fmt.Errorf("shape %v is no picture: want [H,W], [C,H,W] or [H,W,C] with 1 or 3 channels", shape)
}

// Thumb makes a picture of x, row-major with shape [H,W], [C,H,W] or [H,W,C] with 1 or 3 channels; a shape that can be
// read either way has its channels first. lo becomes black, hi white, what lies outside is clamped, and NaN is black.
// Sides longer than 96 pixels are averaged down by a whole factor. It fails for other shapes, another number of values,
// and lo >= hi.
func Thumb(x []float32, shape []int, lo, hi float64) (Image, error) {
	l, err := layoutOf(shape)
	if err != nil {
		return Image{}, err
	}
	if l.height < 1 || l.width < 1 || len(x)/l.height/l.width != l.channels || len(x)%(l.height*l.width) != 0 {
		return Image{}, fmt.Errorf("%d values do not fill shape %v", len(x), shape)
	}
	if !(lo < hi) {
		return Image{}, fmt.Errorf("range [%v, %v] is empty", lo, hi)
	}
	f := (max(l.height, l.width) + maxThumb - 1) / maxThumb
	w, h := (l.width+f-1)/f, (l.height+f-1)/f
	var img image.Image
	if l.channels == 1 {
		grey := image.NewGray(image.Rect(0, 0, w, h))
		for i := range grey.Pix {
			grey.Pix[i] = shade(l.mean(x, i%w*f, i/w*f, 0, f), lo, hi)
		}
		img = grey
	} else {
		rgb := image.NewNRGBA(image.Rect(0, 0, w, h))
		for i := range w * h {
			var c [3]uint8
			for k := range c {
				c[k] = shade(l.mean(x, i%w*f, i/w*f, k, f), lo, hi)
			}
			rgb.SetNRGBA(i%w, i/w, color.NRGBA{c[0], c[1], c[2], 255})
		}
		img = rgb
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&b, img); err != nil {
		return Image{}, err
	}
	return Image{Width: w, Height: h, png: b.Bytes()}, nil
}

// mean is the average of one channel over a square of side f, cut at the border.
func (l layout) mean(x []float32, col, row, channel, f int) float64 {
	sum, n := 0.0, 0
	for r := row; r < min(row+f, l.height); r++ {
		for c := col; c < min(col+f, l.width); c++ {
			at := (r*l.width+c)*l.channels + channel
			if l.planes {
				at = (channel*l.height+r)*l.width + c
			}
			sum += float64(x[at])
			n++
		}
	}
	return sum / float64(n)
}

// shade maps [lo,hi] to 0..255.
func shade(v, lo, hi float64) uint8 {
	share := (v - lo) / (hi - lo)
	switch {
	case share >= 1:
		return 255
	case share > 0:
		return uint8(share*255 + 0.5)
	}
	return 0
}
