package main

import (
	"bufio"
	"encoding/binary"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// enveloped writes "k8s\0" and the object in a runtime.Unknown, as kube-apiserver does.
var enveloped = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

func (c *corpus) render() error {
	for _, s := range streams {
		for _, f := range c.forms() {
			if err := c.renderFile(s, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// renderFile replaces the file only when all of it is written.
func (c *corpus) renderFile(s stream, f form) error {
	path := filepath.Join(c.folder, f.prefix+s.protobuf)
	file, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	out := bufio.NewWriterSize(file, 1<<20)
	err = c.lines(s.json, func(line []byte) error {
		object, err := f.decode(line)
		if err != nil {
			return err
		}
		frame, err := watchFrame(s, object)
		if err != nil {
			return err
		}
		if err := binary.Write(out, binary.LittleEndian, uint32(len(frame))); err != nil {
			return err
		}
		_, err = out.Write(frame)
		return err
	})
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func watchFrame(s stream, object runtime.Object) ([]byte, error) {
	raw, err := runtime.Encode(enveloped, object)
	if err != nil {
		return nil, err
	}
	event := metav1.WatchEvent{Type: string(s.event), Object: runtime.RawExtension{Raw: raw}}
	return event.Marshal()
}
