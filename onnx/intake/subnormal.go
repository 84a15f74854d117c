package intake

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// dropSubnormals replaces weights below 1.2e-38, the smallest normal float32, by 0, and says how many. Weight decay leaves
// such numbers behind; they change no result that is not as small itself, and processors compute with them ten times
// slower or worse. Values that the model has in common with a copy stay as they are there.
func dropSubnormals(m *onnxpb.ModelProto) (dropped int) {
	for _, t := range m.Graph.Initializer {
		if t.DataType != ir.Float32 {
			continue
		}
		found := 0
		for at := 0; at+4 <= len(t.RawData); at += 4 {
			if subnormal(binary.LittleEndian.Uint32(t.RawData[at:])) {
				if found++; found == 1 {
					t.RawData = slices.Clone(t.RawData)
				}
				binary.LittleEndian.PutUint32(t.RawData[at:], 0)
			}
		}
		for i, v := range t.FloatData {
			if subnormal(math.Float32bits(v)) {
				if found++; found == 1 {
					t.FloatData = slices.Clone(t.FloatData)
				}
				t.FloatData[i] = 0
			}
		}
		dropped += found
	}
	return dropped
}

// noteDropped tells of weights that were replaced.
func noteDropped(n int) []string {
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d weights below 1.2e-38, which slow processors down, count as 0", n)}
}

// subnormal says whether the bits of a float32 have exponent 0, and that it is not 0.
func subnormal(bits uint32) bool { return bits<<1 != 0 && bits&0x7f800000 == 0 }
