package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Figure is one chart with its words.
type Figure struct {
	Title   string
	SVG     template.HTML
	Log     template.HTML // the same with a logarithmic axis; empty where there is none
	Legend  []LegendEntry
	Caption string // what to see; may be empty
	Table   string // the table that has the numbers; empty for none
	Image   *Image // in place of SVG
	Alt     string // Image in words
	File    string // where Image lies
}

// LegendEntry is one line of a legend. Class picks colour and dash pattern, s0 to s7, or a kind of mark.
type LegendEntry struct {
	Class, Name, Value string
}

// seriesClass is the CSS class of the i-th series; colours and dashes repeat after eight.
func seriesClass(i int) string { return "s" + strconv.Itoa(i%8) }

// canvas builds one SVG element. Coordinates are in pixels of its view box and written with two decimals.
type canvas struct {
	b             strings.Builder
	width, height float64
}

// newCanvas opens an SVG element. name must be unique on the page; title and desc are for people who cannot see it.
func newCanvas(name, title, desc string, width, height float64) *canvas {
	c := &canvas{width: width, height: height}
	fmt.Fprintf(&c.b, `<svg viewBox="0 0 %s %s" role="img" aria-labelledby="%[3]s-t %[3]s-d"><title id="%[3]s-t">%[4]s</title><desc id="%[3]s-d">%[5]s</desc>`,
		xy(width), xy(height), html.EscapeString(name), html.EscapeString(title), html.EscapeString(desc))
	return c
}

func (c *canvas) html() template.HTML { return template.HTML(c.b.String() + "</svg>") }

// xy writes a coordinate.
func xy(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

// finite says whether a shape has a place; one that has none is not drawn.
func finite(vs ...float64) bool {
	for _, v := range vs {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	if !finite(x1, y1, x2, y2) {
		return
	}
	fmt.Fprintf(&c.b, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, xy(x1), xy(y1), xy(x2), xy(y2), class)
}

// rect draws a rectangle; hint is shown on hover and may be empty.
func (c *canvas) rect(x, y, w, h float64, class, hint string) {
	if !finite(x, y, w, h) {
		return
	}
	fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" class="%s"`, xy(x), xy(y), xy(max(w, 0)), xy(max(h, 0)), class)
	c.end("rect", hint)
}

func (c *canvas) circle(x, y, r float64, class, hint string) {
	if !finite(x, y) {
		return
	}
	fmt.Fprintf(&c.b, `<circle cx="%s" cy="%s" r="%s" class="%s"`, xy(x), xy(y), xy(r), class)
	c.end("circle", hint)
}

func (c *canvas) end(element, hint string) {
	if hint == "" {
		c.b.WriteString("/>")
		return
	}
	fmt.Fprintf(&c.b, `><title>%s</title></%s>`, html.EscapeString(hint), element)
}

// text writes words; anchor is start, middle or end.
func (c *canvas) text(x, y float64, anchor, class, s string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`, xy(x), xy(y), anchor, class, html.EscapeString(s))
}

// turned writes words that read upwards, centred on a point.
func (c *canvas) turned(x, y float64, class, s string) {
	fmt.Fprintf(&c.b, `<text transform="translate(%s %s) rotate(-90)" text-anchor="middle" class="%s">%s</text>`,
		xy(x), xy(y), class, html.EscapeString(s))
}

// path draws a line through points; one without a place interrupts it.
func (c *canvas) path(xs, ys []float64, class string) {
	c.b.WriteString(`<path d="`)
	pen := "M"
	for i := range xs {
		if !finite(xs[i], ys[i]) {
			pen = "M"
			continue
		}
		c.b.WriteString(pen + xy(xs[i]) + " " + xy(ys[i]))
		pen = "L"
	}
	fmt.Fprintf(&c.b, `" class="%s"/>`, class)
}

// area fills between two lines over the same x. It is not drawn when any of them leaves the plane.
func (c *canvas) area(xs, lower, upper []float64, class string) {
	if len(xs) == 0 || !finite(xs...) || !finite(lower...) || !finite(upper...) {
		return
	}
	c.b.WriteString(`<path d="`)
	pen := "M"
	for i := range xs {
		c.b.WriteString(pen + xy(xs[i]) + " " + xy(upper[i]))
		pen = "L"
	}
	for i := len(xs) - 1; i >= 0; i-- {
		c.b.WriteString("L" + xy(xs[i]) + " " + xy(lower[i]))
	}
	fmt.Fprintf(&c.b, `Z" class="%s"/>`, class)
}
