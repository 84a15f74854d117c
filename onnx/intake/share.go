package intake

import (
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// clone copies what is needed of a model to run it. The copy has the values of the weights in common with the model, so
// that a large model does not take its size in memory once more.
func clone(m *onnxpb.ModelProto) *onnxpb.ModelProto {
	g := m.GetGraph()
	out := ir.Clone(&onnxpb.ModelProto{
		IrVersion: m.IrVersion, OpsetImport: m.OpsetImport, ProducerName: m.ProducerName, ProducerVersion: m.ProducerVersion,
		Domain: m.Domain, ModelVersion: m.ModelVersion, DocString: m.DocString, MetadataProps: m.MetadataProps,
		Graph: &onnxpb.GraphProto{
			Name: g.GetName(), Node: g.GetNode(), SparseInitializer: g.GetSparseInitializer(), DocString: g.GetDocString(),
			Input: g.GetInput(), Output: g.GetOutput(), ValueInfo: g.GetValueInfo(),
		},
	})
	for _, t := range g.GetInitializer() {
		out.Graph.Initializer = append(out.Graph.Initializer, &onnxpb.TensorProto{
			Name: t.Name, DataType: t.DataType, Dims: t.Dims, RawData: t.RawData, FloatData: t.FloatData, Int32Data: t.Int32Data,
			Int64Data: t.Int64Data, Uint64Data: t.Uint64Data, DoubleData: t.DoubleData, StringData: t.StringData,
			DataLocation: t.DataLocation, ExternalData: t.ExternalData,
		})
	}
	return out
}
