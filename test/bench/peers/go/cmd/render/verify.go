package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"
)

// verify reads every file back the two ways in which a client meets it, by the decoders of the typed client or of the
// metadata client: as the body of a watch response, and (the messages in the frames) as the items of a list.
func (c *corpus) verify() error {
	for _, s := range streams {
		for _, f := range c.forms() {
			if err := c.verifyFile(s, f); err != nil {
				return fmt.Errorf("%s%s: %w", f.prefix, s.protobuf, err)
			}
		}
	}
	return nil
}

func (c *corpus) verifyFile(s stream, f form) error {
	file, err := os.Open(filepath.Join(c.folder, f.prefix+s.protobuf))
	if err != nil {
		return err
	}
	defer file.Close()

	codecs := scheme.Codecs
	if f.kind == partialKind {
		codecs = metainternalversionscheme.Codecs
	}
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		return errors.New("the client has no protobuf")
	}
	decoder := codecs.WithoutConversion().DecoderToVersion(info.Serializer, f.kind.GroupVersion())
	source := &reframe{in: bufio.NewReaderSize(file, 1<<20)}
	frames := info.StreamSerializer.NewFrameReader(io.NopCloser(source))
	events := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), decoder)

	err = c.lines(s.json, func(line []byte) error {
		want, err := f.decode(line)
		if err != nil {
			return err
		}
		event, got, err := events.Decode()
		if err != nil {
			return err
		}
		if event != s.event {
			return fmt.Errorf("is %s instead of %s", event, s.event)
		}
		if err := same(want, got); err != nil {
			return fmt.Errorf("the watch event: %w", err)
		}
		got, err = viaList(f.kind, source.frame, decoder)
		if err != nil {
			return err
		}
		if err := same(want, got); err != nil {
			return fmt.Errorf("the list item: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, _, err := events.Decode(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("more events than lines of JSON (%v)", err)
	}
	return nil
}

func same(want, got runtime.Object) error {
	// Decoders of different clients treat the type differently; it was checked by decoding to it.
	for _, object := range []runtime.Object{want, got} {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	if !equality.Semantic.DeepEqual(want, got) {
		return fmt.Errorf("is not what the JSON says:\n%+v\n%+v", want, got)
	}
	return nil
}

// viaList puts the message of the object in a watch frame into a list, as the canned server does, and decodes that.
func viaList(kind schema.GroupVersionKind, frame []byte, decoder runtime.Decoder) (runtime.Object, error) {
	var event metav1.WatchEvent
	if err := event.Unmarshal(frame); err != nil {
		return nil, err
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(event.Object.Raw[len("k8s\x00"):]); err != nil {
		return nil, err
	}
	message := envelope.Raw
	const itemsTag = 2<<3 | 2
	raw := append(binary.AppendUvarint([]byte{itemsTag}, uint64(len(message))), message...)
	var body bytes.Buffer
	err := enveloped.Encode(&runtime.Unknown{
		TypeMeta: runtime.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind + "List"},
		Raw:      raw,
	}, &body)
	if err != nil {
		return nil, err
	}
	list, err := runtime.Decode(decoder, body.Bytes())
	if err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	if len(items) != 1 {
		return nil, fmt.Errorf("a list of one has %d items", len(items))
	}
	return items[0], nil
}

// reframe turns the lengths of the file into those of the wire, which are big-endian.
type reframe struct {
	in    io.Reader
	frame []byte // the last one begun, without its length
	ahead []byte // what is still to be given out
}

func (r *reframe) Read(to []byte) (int, error) {
	if len(r.ahead) == 0 {
		var length [4]byte
		if _, err := io.ReadFull(r.in, length[:]); err != nil {
			return 0, err
		}
		size := binary.LittleEndian.Uint32(length[:])
		r.ahead = make([]byte, 4+size)
		binary.BigEndian.PutUint32(r.ahead, size)
		r.frame = r.ahead[4:]
		if _, err := io.ReadFull(r.in, r.frame); err != nil {
			return 0, err
		}
	}
	n := copy(to, r.ahead)
	r.ahead = r.ahead[n:]
	return n, nil
}
