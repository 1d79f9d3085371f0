package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

var partialKind = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")

// corpus is a folder that bench_corpus wrote.
type corpus struct {
	folder string
	kind   schema.GroupVersionKind
}

// stream is one file of JSON lines, and what becomes of it.
type stream struct {
	json, protobuf string
	event          watch.EventType
}

var streams = []stream{{"items.jsonl", "initial.pb", watch.Added}, {"events.jsonl", "events.pb", watch.Modified}}

func openCorpus(folder string) (*corpus, error) {
	text, err := os.ReadFile(filepath.Join(folder, "meta.json"))
	if err != nil {
		return nil, err
	}
	var meta struct{ Group, Version, Kind string }
	if err := json.Unmarshal(text, &meta); err != nil {
		return nil, fmt.Errorf("meta.json: %w", err)
	}
	if meta.Version == "" || meta.Kind == "" {
		return nil, errors.New("meta.json names no version and kind")
	}
	return &corpus{folder, schema.GroupVersionKind{Group: meta.Group, Version: meta.Version, Kind: meta.Kind}}, nil
}

// form is one way to show the objects: whole or metadata only.
type form struct {
	prefix string
	kind   schema.GroupVersionKind
	decode func(line []byte) (runtime.Object, error)
}

func (c *corpus) forms() []form {
	partial := form{"pmeta_", partialKind, decodePartial}
	if !scheme.Scheme.Recognizes(c.kind) {
		return []form{partial}
	}
	return []form{{"", c.kind, c.decodeWhole}, partial}
}

// Strict: a field that the type does not have would be lost.
var strictJSON = kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, kjson.SerializerOptions{Strict: true})

func (c *corpus) decodeWhole(line []byte) (runtime.Object, error) {
	object, _, err := strictJSON.Decode(line, &c.kind, nil)
	if err != nil {
		return nil, err
	}
	// The message has no place for the type: the envelope has.
	object.GetObjectKind().SetGroupVersionKind(c.kind)
	return object, nil
}

func decodePartial(line []byte) (runtime.Object, error) {
	object := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(line, object); err != nil {
		return nil, err
	}
	object.SetGroupVersionKind(partialKind)
	return object, nil
}

// lines calls use for every line of a file. A file that is not there is an empty one: a corpus may be without events.
func (c *corpus) lines(name string, use func(line []byte) error) error {
	file, err := os.Open(filepath.Join(c.folder, name))
	if errors.Is(err, fs.ErrNotExist) && name == "events.jsonl" {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<20)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) > 1 {
			if err := use(line); err != nil {
				return fmt.Errorf("%s, line %d: %w", name, number, err)
			}
		}
		if err != nil {
			return nil
		}
	}
}
