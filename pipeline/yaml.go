package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds on the text. The parser's time and memory grow with the square of the nesting depth.
const (
	maxText  = 1 << 20 // bytes
	maxDepth = 100
)

// place is a position in the text, from 1.
type place struct{ line, col int }

type nodeKind int

const (
	nullNode nodeKind = iota
	scalarNode
	listNode
	mapNode
)

// node is a YAML value with its position. Aliases share the node of their anchor; merge keys are already merged.
type node struct {
	kind    nodeKind
	at      place
	text    string // scalar: as written, or the text between the quotes
	quoted  bool   // scalar: quoted, a block or tagged !!str, thus a string whatever it looks like
	items   []*node
	entries []entry
}

type entry struct {
	key   string
	at    place
	value *node
}

func (n *node) get(key string) (entry, bool) {
	for _, e := range n.entries {
		if e.key == key {
			return e, true
		}
	}
	return entry{}, false
}

// found says what n is, for messages.
func (n *node) found() string {
	switch n.kind {
	case nullNode:
		return "nothing"
	case listNode:
		return "a list"
	case mapNode:
		return "a mapping"
	}
	if n.quoted {
		return fmt.Sprintf("the text %q", clip(n.text))
	}
	return clip(n.text)
}

func joined(path, key string) string {
	if path == "" {
		return clip(key)
	}
	return path + "." + clip(key)
}

func indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "..."
	}
	return s
}

// parseYAML reads the single document of text. It returns nil after adding a finding where there is none.
func parseYAML(text []byte, fs *findings) (root *node) {
	defer func() {
		if p := recover(); p != nil {
			fs.add(place{}, "", Syntax, "the YAML parser cannot read this text: %v", p)
			root = nil
		}
	}()
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if at, msg := refuse(text); msg != "" {
		fs.add(at, "", Syntax, "%s", msg)
		return nil
	}
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var at place
		msg := err.Error()
		var ye yaml.Error
		if errors.As(err, &ye) && ye.GetToken() != nil {
			p := ye.GetToken().Position
			at, msg = place{p.Line, p.Column}, ye.GetMessage()
		}
		if bytes.ContainsRune(lineOf(text, at.line), '\t') {
			msg = strings.ReplaceAll(msg, "\t", `\t`) + " (indent with spaces: YAML allows no tabs there)"
		}
		fs.add(at, "", Syntax, "%s", msg)
		return nil
	}
	c := converter{fs: fs, anchors: map[string]*node{}}
	for _, doc := range file.Docs {
		switch body := doc.Body.(type) {
		case nil, *ast.DirectiveNode, *ast.CommentGroupNode:
		default:
			if root != nil {
				fs.add(startOf(body), "", SecondDocument, "a second YAML document: a file holds one pipeline; remove it with its ---")
				return root
			}
			root = c.convert(body, "")
		}
	}
	if root == nil {
		fs.add(place{}, "", EmptyFile, "the file is empty: version, name, data and stages are wanted")
	}
	return root
}

// refuse finds text that must not reach the parser: too much, not text, or nested too deep.
func refuse(text []byte) (place, string) {
	if len(text) > maxText {
		return place{}, fmt.Sprintf("the file has %d bytes, at most %d are read", len(text), maxText)
	}
	flow, lineNo := 0, 0
	for line := range bytes.Lines(text) {
		lineNo++
		if col, msg := notText(line); msg != "" {
			return place{lineNo, col}, msg
		}
		line, _, _ = bytes.Cut(line, []byte(" #"))
		rest := bytes.TrimLeft(line, " ")
		if bytes.HasPrefix(rest, []byte("#")) {
			continue
		}
		marks := len(rest) - len(bytes.TrimLeft(rest, "-?:!&* "))
		var deepest int
		flow, deepest = flowDepth(line, flow)
		if deepest > maxDepth || marks > maxDepth || len(line)-len(rest) > 10*maxDepth {
			return place{lineNo, 1}, fmt.Sprintf("nested more than %d deep", maxDepth)
		}
	}
	return place{}, ""
}

// flowDepth counts open brackets after a line and at its deepest; quotes are not looked at.
func flowDepth(line []byte, depth int) (after, deepest int) {
	for _, b := range line {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		}
		deepest = max(deepest, depth)
	}
	return depth, deepest
}

// notText finds the first character of a line that no YAML text has, and its column.
func notText(line []byte) (col int, msg string) {
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		col++
		switch {
		case r == utf8.RuneError && size == 1:
			return col, "the text is not UTF-8"
		case r < ' ' && r != '\t' && r != '\r' && r != '\n' || r == 0x7f:
			return col, fmt.Sprintf("control character %U", r)
		}
		line = line[size:]
	}
	return 0, ""
}

func lineOf(text []byte, line int) []byte {
	for range line - 1 {
		i := bytes.IndexByte(text, '\n')
		if i < 0 {
			return nil
		}
		text = text[i+1:]
	}
	first, _, _ := bytes.Cut(text, []byte{'\n'})
	return first
}

// converter turns the parser's tree into nodes.
type converter struct {
	fs      *findings
	anchors map[string]*node
}

func (c *converter) convert(n ast.Node, path string) *node {
	if n == nil {
		return &node{}
	}
	at := startOf(n)
	switch v := n.(type) {
	case *ast.MappingNode:
		return c.mapping(at, v.Values, path)
	case *ast.MappingValueNode:
		return c.mapping(at, []*ast.MappingValueNode{v}, path)
	case *ast.SequenceNode:
		out := &node{kind: listNode, at: at}
		for i, item := range v.Values {
			out.items = append(out.items, c.convert(item, indexed(path, i)))
		}
		return out
	case *ast.AnchorNode:
		out := c.convert(v.Value, path)
		c.anchors[v.Name.GetToken().Value] = out
		return out
	case *ast.AliasNode:
		name := v.Value.GetToken().Value
		if out, ok := c.anchors[name]; ok {
			return out
		}
		c.fs.add(at, path, Syntax, "alias *%s: no anchor &%s comes before it", name, name)
		return &node{at: at}
	case *ast.TagNode:
		return c.tagged(at, v, path)
	case *ast.NullNode:
		return &node{at: at}
	case *ast.LiteralNode:
		return &node{kind: scalarNode, at: at, text: v.Value.Value, quoted: true}
	case *ast.StringNode:
		return &node{kind: scalarNode, at: at, text: v.Value, quoted: v.Token.Indicator == token.QuotedScalarIndicator}
	case ast.ScalarNode:
		return &node{kind: scalarNode, at: at, text: v.GetToken().Value}
	}
	c.fs.add(at, path, Syntax, "this YAML construct (%s) is not used in a pipeline", n.Type())
	return &node{at: at}
}

func (c *converter) tagged(at place, v *ast.TagNode, path string) *node {
	out := c.convert(v.Value, path)
	switch tag := v.Start.Value; tag {
	case "!!str":
		if out.kind != listNode && out.kind != mapNode {
			// The node may be shared with an alias, hence the copy.
			return &node{kind: scalarNode, at: out.at, text: out.text, quoted: true}
		}
	case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
	default:
		c.fs.add(at, path, Syntax, "the tag %s has no meaning here", tag)
	}
	return out
}

func (c *converter) mapping(at place, values []*ast.MappingValueNode, path string) *node {
	out := &node{kind: mapNode, at: at}
	seen := map[string]place{}
	var merged []*node
	for _, kv := range values {
		keyAt := startOf(kv.Key)
		if kv.Key.IsMergeKey() {
			merged = append(merged, c.convert(kv.Value, path))
			continue
		}
		var key string
		switch k := kv.Key.(type) {
		case *ast.StringNode:
			key = k.Value
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
			key = k.GetToken().Value
		default:
			c.fs.add(keyAt, path, Syntax, "a key must be a plain word")
			continue
		}
		value := c.convert(kv.Value, joined(path, key))
		if first, twice := seen[key]; twice {
			c.fs.add(keyAt, joined(path, key), DuplicateKey, "the key is given twice, first in line %d", first.line)
			continue
		}
		seen[key] = keyAt
		out.entries = append(out.entries, entry{key, keyAt, value})
	}
	for _, m := range merged {
		c.merge(out, m, seen)
	}
	return out
}

// merge adds the keys of a << value that are not given already; of several mappings the first wins.
func (c *converter) merge(out, m *node, seen map[string]place) {
	switch m.kind {
	case mapNode:
		for _, e := range m.entries {
			if _, given := seen[e.key]; !given {
				seen[e.key] = e.at
				out.entries = append(out.entries, e)
			}
		}
	case listNode:
		for _, item := range m.items {
			if item.kind == listNode {
				c.fs.add(item.at, "", Syntax, "<< takes a mapping or a list of mappings")
				continue
			}
			c.merge(out, item, seen)
		}
	default:
		c.fs.add(m.at, "", Syntax, "<< takes a mapping or a list of mappings, found %s", m.found())
	}
}

// startOf is where n begins. The parser gives a block mapping the position of its first colon.
func startOf(n ast.Node) place {
	switch v := n.(type) {
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return startOf(v.Values[0])
		}
	case *ast.MappingValueNode:
		return startOf(v.Key)
	}
	tk := n.GetToken()
	if tk == nil || tk.Position == nil {
		return place{}
	}
	return place{tk.Position.Line, tk.Position.Column}
}
