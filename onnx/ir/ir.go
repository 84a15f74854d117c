// Package ir reads, checks, builds and writes ONNX models. It knows the file format and the rules of a graph, but
// not what any operator means.
package ir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// maxDepth bounds how deep messages nest, subgraphs above all. It is the limit of the readers of other tools, and
// keeps what walks a model from running out of stack.
const maxDepth = 100

// Load decodes an ONNX model. Fields that are not known here are kept and written again by Marshal. The model is
// decoded, not checked: see Check. Values of tensors in other files are left there: see LoadFile.
func Load(data []byte) (*onnxpb.ModelProto, error) {
	if len(data) == 0 {
		return nil, errors.New("not an ONNX model: the file is empty")
	}
	m := &onnxpb.ModelProto{}
	if err := (proto.UnmarshalOptions{RecursionLimit: maxDepth}).Unmarshal(data, m); err != nil {
		return nil, notONNX(data, err)
	}
	if m.Graph == nil {
		return nil, errors.New("not an ONNX model: it has no graph")
	}
	return m, nil
}

// notONNX says what bytes are that cannot be decoded.
func notONNX(data []byte, err error) error {
	if bytes.HasPrefix(data, []byte("PK")) {
		return errors.New("not an ONNX model but a zip archive, as PyTorch writes its checkpoints: export the model with torch.onnx.export")
	}
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ") // protobuf varies its texts so that nobody depends on them
	return fmt.Errorf("not an ONNX model, or one that was cut off: %d bytes that cannot be decoded (%s)", len(data), text)
}

// LoadFile decodes the ONNX model in a file and reads the values of tensors that are stored in other files of its
// folder. Errors name the file.
func LoadFile(path string) (*onnxpb.ModelProto, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := Load(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := readExternal(m, path); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Marshal encodes a model; equal models give equal bytes. The format cannot hold more than 2 GiB.
func Marshal(m *onnxpb.ModelProto) ([]byte, error) {
	if n := proto.Size(m); n > maxBytes {
		return nil, fmt.Errorf("the model takes %d bytes, an ONNX file holds at most %d", n, maxBytes)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// Clone copies a model, tensor values included.
func Clone(m *onnxpb.ModelProto) *onnxpb.ModelProto {
	return proto.Clone(m).(*onnxpb.ModelProto)
}

// Opset gives the version of ONNX's own operator set that a model imports; 0 where it imports none.
func Opset(m *onnxpb.ModelProto) int64 {
	for _, o := range m.GetOpsetImport() {
		if IsStandard(o.GetDomain()) {
			return o.GetVersion()
		}
	}
	return 0
}

// IsStandard says whether a domain is that of ONNX's own operators, which has two spellings.
func IsStandard(domain string) bool { return domain == "" || domain == "ai.onnx" }

// Describe names a node for a message: its name where it has one, else its first output, and its operator.
func Describe(n *onnxpb.NodeProto) string {
	op := n.GetOpType()
	if !IsStandard(n.GetDomain()) {
		op = n.GetDomain() + "." + op
	}
	if n.GetName() != "" {
		return fmt.Sprintf("node %q (%s)", n.GetName(), op)
	}
	for _, o := range n.GetOutput() {
		if o != "" {
			return fmt.Sprintf("node of %q (%s)", o, op)
		}
	}
	return fmt.Sprintf("node without a name (%s)", op)
}
