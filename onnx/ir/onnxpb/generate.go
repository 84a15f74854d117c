// Package onnxpb holds the messages of the ONNX file format, generated from onnx.proto in this folder.
package onnxpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative onnx.proto
