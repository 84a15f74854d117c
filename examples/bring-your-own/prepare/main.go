// Prepare makes the data of this example: it unpacks the JPEG pictures of the CIFAR-10 test set and of Tiny-ImageNet at
// 32x32, leaves out the classes of the latter that show what CIFAR-10 shows, and copies textures and model beside them.
//
//	go run ./examples/bring-your-own/prepare FOLDER examples/bring-your-own/data
//
// FOLDER holds cifar10/, tiny-imagenet-32/, dtd/ and onnx/models/ with the files named below.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"image/jpeg"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const side = 32

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: prepare FOLDER OUTPUT")
		os.Exit(2)
	}
	if err := prepare(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

func prepare(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	alike, err := classesAlike(filepath.Join(from, "tiny-imagenet-32/classes.tsv"))
	if err != nil {
		return err
	}
	for _, set := range []struct {
		archive, file string
		leave         []string // classes
	}{
		{"cifar10/test10000-jpeg.tar.gz", "cifar10-test-images-idx4-ubyte.gz", nil},
		{"tiny-imagenet-32/val10000-jpeg.tar.gz", "tiny-imagenet-images-idx4-ubyte.gz", alike},
	} {
		pictures, err := unpack(filepath.Join(from, set.archive), set.leave)
		if err != nil {
			return fmt.Errorf("%s: %w", set.archive, err)
		}
		if err := writeIDX(filepath.Join(to, set.file), pictures); err != nil {
			return err
		}
		fmt.Printf("%s: %d pictures\n", set.file, len(pictures))
	}
	for _, c := range [][2]string{
		{"cifar10/test10k-labels-idx1-ubyte.gz", "cifar10-test-labels-idx1-ubyte.gz"},
		{"dtd/resize-32-images-idx4-ubyte.gz", "textures-images-idx4-ubyte.gz"},
		{"onnx/models/cifar10-resnet-4b.onnx", "cifar10-resnet-4b.onnx"},
	} {
		data, err := os.ReadFile(filepath.Join(from, c[0]))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, c[1]), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// classesAlike lists the Tiny-ImageNet classes that show a CIFAR-10 class: those whose last column is not 255.
func classesAlike(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != 4 {
			return nil, fmt.Errorf("%s: %d columns in %q, want 4", file, len(cells), line)
		}
		if cells[3] != "255" {
			out = append(out, cells[1])
		}
	}
	return out, nil
}

// unpack decodes the pictures of an archive, in the order of their names, without those of some classes; a name ends
// with -CLASS.jpg.
func unpack(archive string, leave []string) ([][]byte, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	pictures := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		name := path.Base(h.Name)
		_, class, _ := strings.Cut(strings.TrimSuffix(name, ".jpg"), "-")
		if path.Ext(name) != ".jpg" || slices.Contains(leave, class) {
			continue
		}
		if pictures[name], err = pixels(r); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	var names []string
	for name := range pictures {
		names = append(names, name)
	}
	slices.Sort(names)
	out := make([][]byte, len(names))
	for i, name := range names {
		out[i] = pictures[name]
	}
	return out, nil
}

// pixels decodes a picture into red, green and blue of each pixel, row by row.
func pixels(r io.Reader) ([]byte, error) {
	im, err := jpeg.Decode(r)
	if err != nil {
		return nil, err
	}
	if size := im.Bounds().Size(); size.X != side || size.Y != side {
		return nil, fmt.Errorf("%v pixels, want %d by %d", size, side, side)
	}
	out := make([]byte, 0, side*side*3)
	for y := range side {
		for x := range side {
			red, green, blue, _ := im.At(x, y).RGBA()
			out = append(out, byte(red>>8), byte(green>>8), byte(blue>>8))
		}
	}
	return out, nil
}

// writeIDX writes uint8 pictures [N, 32, 32, 3] in the format of MNIST.
func writeIDX(file string, pictures [][]byte) error {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	header := []byte{0, 0, 8, 4}
	for _, d := range []int{len(pictures), side, side, 3} {
		header = binary.BigEndian.AppendUint32(header, uint32(d))
	}
	for _, part := range append([][]byte{header}, pictures...) {
		if _, err := z.Write(part); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
