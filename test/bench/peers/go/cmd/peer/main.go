// Command peer follows one resource with an informer of client-go or controller-runtime and speaks the benchmark's line
// protocol: JSON lines on stdout, commands on stdin (see ../../../README.md). The driver measures it from outside.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	server := flag.String("server", "", "`URL` of the API server, http:// or https://")
	mode := flag.String("mode", "typed-protobuf", "one of "+strings.Join(modeNames(), ", "))
	token := flag.String("token", "", "bearer token")
	ca := flag.String("ca", "", "`file` with the server's CA certificate")
	resource := flag.String("resource", "pods", "what to follow: pods, or resource.version.group")
	list := flag.Bool("list", false, "begin with a LIST instead of a watch-list")
	strip := flag.Bool("strip", false, "drop managedFields before an object is stored")
	version := flag.Bool("version", false, "print the versions of Go and the libraries as JSON, and exit")
	flag.Parse()

	if *version {
		emit(versions())
		return
	}
	if err := run(options{*server, *mode, *token, *ca, *resource, *list, *strip}); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

type options struct {
	server, mode, token, ca, resource string
	list, strip                       bool
}

func run(o options) error {
	if o.server == "" || flag.NArg() > 0 {
		return errors.New("--server is required and there are no positional arguments (see --help)")
	}
	if o.list {
		// client-go reads its feature gates from the environment when the first of them is asked for.
		os.Setenv("KUBE_FEATURE_WatchListClient", "false")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()

	config := &rest.Config{
		Host:            o.server,
		BearerToken:     o.token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: o.ca},
		QPS:             -1, // no client-side throttling
	}
	var negotiated contentType
	config.Wrap(negotiated.observe)

	follower, err := newFollower(o.mode, config, o.resource, o.strip)
	if err != nil {
		return err
	}
	emit(map[string]any{"at": "empty"})

	var seen counter
	registration, err := follower.start(ctx, &seen)
	if err != nil {
		return err
	}
	commands, synced := readCommands(), make(chan struct{})
	go func() {
		if cache.WaitFor(ctx, "", registration.HasSyncedChecker()) {
			close(synced)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-synced:
			emit(map[string]any{"at": "synced", "objects": len(follower.objects()), "content_type": negotiated.String()})
			synced = nil
		case line, open := <-commands:
			if !open || line == "quit" {
				return nil
			}
			answer(line, follower, &seen)
		}
	}
}

func answer(command string, follower *follower, seen *counter) {
	switch command {
	case "count":
		emit(map[string]any{"at": "events", "count": seen.updates.Load(), "adds": seen.adds.Load(), "deletes": seen.deletes.Load()})
	case "force":
		runtime.GC()
		debug.FreeOSMemory()
		emit(map[string]any{"at": "forced"})
	case "latency":
		count, p50, p99 := seen.latency.take()
		emit(map[string]any{"at": "latency", "count": count, "p50_us": p50, "p99_us": p99})
	case "digest":
		objects := follower.objects()
		emit(map[string]any{"at": "digest", "objects": len(objects), "sha256": digest(objects)})
	case "":
	default:
		emit(map[string]any{"at": "error", "message": "unknown command " + command})
	}
}

// readCommands passes on the lines of stdin; the channel is closed at its end, so that no peer outlives its driver.
func readCommands() <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- strings.TrimSpace(in.Text())
		}
	}()
	return lines
}

// emit writes one JSON line with a single system call, so that lines of different goroutines do not mix.
func emit(value map[string]any) {
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(line, '\n'))
}

func versions() map[string]any {
	result := map[string]any{"go": runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "k8s.io/client-go", "k8s.io/apimachinery", "sigs.k8s.io/controller-runtime":
				result[module.Path] = module.Version
			}
		}
	}
	return result
}
