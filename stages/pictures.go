package stages

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
)

// samplesFolder holds the pictures that a train stage draws of its chains.
const samplesFolder = "samples"

// writeGrid draws states [n,C,H,W] of a range as a PNG, side by side in a square with a pixel between them, and magnified
// where they are small. One channel is grey, three are RGB, of others the first is drawn.
func writeGrid(path string, x []float32, shape []int, lo, hi float64) error {
	c, h, w := shape[0], shape[1], shape[2]
	n := len(x) / (c * h * w)
	zoom := max(1, 32/max(h, w))
	side := int(math.Ceil(math.Sqrt(float64(n))))
	rows := (n + side - 1) / side
	img := image.NewRGBA(image.Rect(0, 0, side*(w*zoom+1)-1, rows*(h*zoom+1)-1))
	for i := range n {
		state := x[i*c*h*w : (i+1)*c*h*w]
		level := func(channel, at int) uint8 {
			v := (float64(state[channel*h*w+at]) - lo) / (hi - lo)
			return uint8(math.Round(255 * min(max(v, 0), 1)))
		}
		left, top := i%side*(w*zoom+1), i/side*(h*zoom+1)
		for y := range h * zoom {
			for xx := range w * zoom {
				at := y/zoom*w + xx/zoom
				p := color.RGBA{A: 255, R: level(0, at)}
				p.G, p.B = p.R, p.R
				if c == 3 {
					p.G, p.B = level(1, at), level(2, at)
				}
				img.SetRGBA(left+xx, top+y, p)
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return outputs.WriteFileAtomic(path, b.Bytes())
}

// keepPictures copies the pictures of a run, which may have been drawn by several processes, to its results.
func keepPictures(rc *pipeline.RunContext, scratch string) error {
	from := filepath.Join(scratch, samplesFolder)
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(rc.Dir.Path(samplesFolder), 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = outputs.WriteFileAtomic(rc.Dir.Path(samplesFolder, e.Name()), data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
