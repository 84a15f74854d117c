package runtime_test

import "google.golang.org/protobuf/encoding/protowire"

// A model for tests, written with the published field numbers of ONNX.

const (
	typeFloat = 1
	typeUint8 = 2
	typeInt64 = 7
)

type testValue struct {
	name  string
	typ   int
	shape []int64 // -1 is free; nil and noShape: not stated
	loose bool    // no shape at all
}

type testNode struct {
	op      string
	in, out []string
	attrs   [][]byte
}

type testModel struct {
	inputs, outputs []testValue
	nodes           []testNode
	inits           [][]byte
	metadata        [][2]string
	ir, opset       uint64
}

func bytesField(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

func stringField(b []byte, n protowire.Number, v string) []byte { return bytesField(b, n, []byte(v)) }

func intField(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func (v testValue) encode() []byte {
	tensor := intField(nil, 1, uint64(v.typ))
	if !v.loose {
		var shape []byte
		for _, d := range v.shape {
			var dim []byte
			if d < 0 {
				dim = stringField(nil, 2, "N")
			} else {
				dim = intField(nil, 1, uint64(d))
			}
			shape = bytesField(shape, 1, dim)
		}
		tensor = bytesField(tensor, 2, shape)
	}
	return bytesField(stringField(nil, 1, v.name), 2, bytesField(nil, 1, tensor))
}

func attrInt(name string, v int64) []byte {
	a := stringField(nil, 1, name)
	a = intField(a, 3, uint64(v))
	return intField(a, 20, 2)
}

func initInts(name string, values ...int64) []byte {
	t := intField(nil, 1, uint64(len(values)))
	t = intField(t, 2, typeInt64)
	for _, v := range values {
		t = intField(t, 7, uint64(v))
	}
	return stringField(t, 8, name)
}

func (m testModel) encode() []byte {
	var graph []byte
	for _, n := range m.nodes {
		var node []byte
		for _, s := range n.in {
			node = stringField(node, 1, s)
		}
		for _, s := range n.out {
			node = stringField(node, 2, s)
		}
		node = stringField(node, 4, n.op)
		for _, a := range n.attrs {
			node = bytesField(node, 5, a)
		}
		graph = bytesField(graph, 1, node)
	}
	graph = stringField(graph, 2, "g")
	for _, t := range m.inits {
		graph = bytesField(graph, 5, t)
	}
	for _, v := range m.inputs {
		graph = bytesField(graph, 11, v.encode())
	}
	for _, v := range m.outputs {
		graph = bytesField(graph, 12, v.encode())
	}
	if m.ir == 0 {
		m.ir = 8
	}
	if m.opset == 0 {
		m.opset = 17
	}
	b := bytesField(intField(nil, 1, m.ir), 7, graph)
	b = bytesField(b, 8, intField(nil, 2, m.opset))
	for _, kv := range m.metadata {
		b = bytesField(b, 14, stringField(stringField(nil, 1, kv[0]), 2, kv[1]))
	}
	return b
}

// twoOutputs is sum = a + b, and product = a*b, for a, b of shape [N,2], with an int64 output between the two.
func twoOutputs() []byte {
	return testModel{
		inputs:  []testValue{{name: "a", typ: typeFloat, shape: []int64{-1, 2}}, {name: "b", typ: typeFloat, shape: []int64{-1, 2}}},
		outputs: []testValue{{name: "sum", typ: typeFloat, shape: []int64{-1, 2}}, {name: "class", typ: typeInt64, shape: []int64{-1}}, {name: "product", typ: typeFloat, shape: []int64{-1, 2}}},
		nodes: []testNode{
			{op: "Add", in: []string{"a", "b"}, out: []string{"sum"}},
			{op: "ArgMax", in: []string{"sum"}, out: []string{"class"}, attrs: [][]byte{attrInt("axis", 1), attrInt("keepdims", 0)}},
			{op: "Mul", in: []string{"a", "b"}, out: []string{"product"}},
		},
		metadata: [][2]string{{"classes", "[\"left\",\"right\"]"}, {"fingerprint", "abc"}},
	}.encode()
}

// unary is y = op(x) with stated shapes.
func unary(op string, in, out testValue) []byte {
	return testModel{inputs: []testValue{in}, outputs: []testValue{out},
		nodes: []testNode{{op: op, in: []string{in.name}, out: []string{out.name}}}}.encode()
}

// chain multiplies a square matrix by itself, steps times: a run that takes long and has many nodes.
func chain(steps int) []byte {
	m := testModel{inputs: []testValue{{name: "x", typ: typeFloat, shape: []int64{-1, -1}}},
		outputs: []testValue{{name: "y", typ: typeFloat, shape: []int64{-1, -1}}}}
	at := "x"
	for i := range steps {
		next := "h" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		if i == steps-1 {
			next = "y"
		}
		m.nodes = append(m.nodes, testNode{op: "MatMul", in: []string{at, "x"}, out: []string{next}})
		at = next
	}
	return m.encode()
}
