package stages

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/outputs/report"
	"github.com/jempipe/jempipe/pipeline"
)

// samplesFolder holds the pictures that a train stage draws of its chains.
const samplesFolder = "samples"

// pictureName is the file of the picture of a step.
const pictureName = "step-%06d.png"

// writeGrid draws states [n,C,H,W] of a range as a PNG, side by side in a square with a pixel between them, and magnified
// where they are small. One channel is grey, three are RGB, of others the first is drawn.
func writeGrid(file string, x []float32, shape []int, lo, hi float64) error {
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
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return outputs.WriteFileAtomic(file, b.Bytes())
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

// newestPicture is the picture of the last step that a train stage drew; nil where it drew none.
func newestPicture(rc *pipeline.RunContext, ref pipeline.StageRef) (*report.Snapshot, error) {
	folder := filepath.Join(rc.StageDir(ref), samplesFolder)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var newest *report.Snapshot
	for _, e := range entries {
		number := strings.TrimSuffix(strings.TrimPrefix(e.Name(), "step-"), ".png")
		step, err := strconv.ParseInt(number, 10, 64)
		if err == nil && e.Name() == fmt.Sprintf(pictureName, step) && (newest == nil || step > newest.Step) {
			newest = &report.Snapshot{Step: step, Path: path.Join(string(ref), samplesFolder, e.Name())}
		}
	}
	if newest == nil {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(folder, path.Base(newest.Path)))
	if err != nil {
		return nil, err
	}
	if img, err := report.FromPNG(data); err == nil {
		newest.Image = &img
	} else {
		newest.Absent = err.Error()
	}
	return newest, nil
}
