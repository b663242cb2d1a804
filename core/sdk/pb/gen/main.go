// Command gen compiles plugin.proto and writes the Go code beside it, without
// protoc. Run it with `go generate` in core/sdk/pb; it is a module of its own
// so that its dependencies stay out of trainctl's.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const source = "plugin.proto"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: gen DIRECTORY (the one that holds " + source + ")")
	}
	dir := os.Args[1]
	request, err := compile(dir)
	if err != nil {
		log.Fatal(err)
	}
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(dir, tool, request); err != nil {
			log.Fatalf("%s: %v", tool, err)
		}
	}
}

// compile parses the source and wraps it as protoc hands it to its plugins.
func compile(dir string) ([]byte, error) {
	c := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{dir}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(context.Background(), source)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])},
	})
}

// generate runs one code generator, a tool dependency of this module.
func generate(dir, tool string, request []byte) error {
	cmd := exec.Command("go", "tool", tool)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var reply pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return fmt.Errorf("%s", reply.GetError())
	}
	for _, f := range reply.File {
		if err := os.WriteFile(filepath.Join(dir, f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
