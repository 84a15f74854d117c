package intake

import (
	"encoding/binary"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// dropSubnormals replaces weights below 1.2e-38, the smallest normal float32, by 0. Weight decay leaves such numbers
// behind; they change no result that is not as small itself, and processors compute with them ten times slower or worse.
func dropSubnormals(m *onnxpb.ModelProto) {
	for _, t := range m.Graph.Initializer {
		if t.DataType != ir.Float32 {
			continue
		}
		for at := 0; at+4 <= len(t.RawData); at += 4 {
			if subnormal(binary.LittleEndian.Uint32(t.RawData[at:])) {
				binary.LittleEndian.PutUint32(t.RawData[at:], 0)
			}
		}
		for i, v := range t.FloatData {
			if v > -least && v < least {
				t.FloatData[i] = 0
			}
		}
	}
}

// subnormal says whether the bits of a float32 have exponent 0, and that it is not 0.
func subnormal(bits uint32) bool { return bits<<1 != 0 && bits&0x7f800000 == 0 }
