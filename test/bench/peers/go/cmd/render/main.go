// Command render writes the corpus of the benchmark in protobuf, as kube-apiserver would send it:
//
//	initial.pb, events.pb              every object as a watch event: ADDED for items.jsonl, MODIFIED for events.jsonl
//	pmeta_initial.pb, pmeta_events.pb  the same with PartialObjectMetadata for the objects
//
// Each file is a sequence of (length, 32 bits little-endian; bytes). The bytes are what stands in one frame of a watch
// response: a meta/v1 WatchEvent whose object is "k8s\0" and a runtime.Unknown, whose raw part is the message that also
// stands in the list. Kinds without protobuf (custom resources) get the pmeta_ files only.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	check := flag.Bool("verify", false, "also read the files back with client-go's decoders and compare with the JSON")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: render [--verify] DIR\n\nWrites the corpus in DIR (items.jsonl, events.jsonl, meta.json) in protobuf.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run(folder string, check bool) error {
	corpus, err := openCorpus(folder)
	if err != nil {
		return err
	}
	if err := corpus.render(); err != nil {
		return err
	}
	if check {
		return corpus.verify()
	}
	return nil
}
