// Command micro measures the parts of client-go and controller-runtime that the library's own micro benchmarks measure.
// It prints a JSON line for each:
//
//	name                    part/what, as queue/add_get_done
//	ns_per_op               wall time, the best of several runs
//	cpu_ns_per_op           processor time of all threads (garbage collection too) in the run with the least
//	allocated_bytes_per_op  garbage made, or handed out
//	bytes_per_item          memory held for each item (in the queue, in the index, for each handler); 0: not measured
//
// For fanout/N and fanout-singly/N an operation is one event at one of the N handlers, and an item is a handler;
// bytes_per_item_after_load is what a handler holds when it has come to rest after the load. The part together has figures of
// its own: see togetherResult.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

var parts = []struct {
	name string
	run  func(o options)
}{{"queue", queues}, {"indexer", indexers}, {"cache", caches}, {"together", together}, {"fanout", fanOut}}

type options struct {
	corpus string // folder of bench_corpus with pods; empty: pods made here
	rounds int
	lasts  time.Duration
}

func main() {
	var names []string
	for _, part := range parts {
		names = append(names, part.name)
	}
	only := flag.String("only", "", "measure only `parts`, separated by commas: "+strings.Join(names, ", "))
	corpus := flag.String("corpus", "", "take the pods from this `folder` of bench_corpus (default: simple pods of about 4 KB as JSON)")
	rounds := flag.Int("rounds", 5, "how often each is run, the best counts")
	seconds := flag.Float64("seconds", 2, "how long each number of readers reads together with the writer")
	flag.Parse()
	selected := strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	for _, name := range selected {
		if !slices.Contains(names, name) {
			fmt.Fprintf(os.Stderr, "micro: there is no part %q (see --help)\n", name)
			os.Exit(2)
		}
	}
	os.Setenv("KUBE_FEATURE_WatchListClient", "false") // the server in memory has no watch-list
	ctrllog.SetLogger(klog.Background())
	for _, part := range parts {
		if len(selected) == 0 || slices.Contains(selected, part.name) {
			part.run(options{*corpus, max(*rounds, 1), time.Duration(*seconds * float64(time.Second))})
		}
	}
}

type result struct {
	Name      string  `json:"name"`
	Wall      float64 `json:"ns_per_op"`
	CPU       float64 `json:"cpu_ns_per_op"`
	Allocated float64 `json:"allocated_bytes_per_op"`
	Held      float64 `json:"bytes_per_item"`
	AfterLoad float64 `json:"bytes_per_item_after_load,omitempty"`
}

// measure runs body, which does that many operations, several times and takes the best of each figure. The body gets the
// number of its round.
func (o options) measure(name string, operations int, body func(round int)) result {
	best := result{Name: name, Wall: math.Inf(1), CPU: math.Inf(1), Allocated: math.Inf(1)}
	for round := range o.rounds {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		cpu, begin := processorTime(), time.Now()
		body(round)
		wall := time.Since(begin)
		cpu = processorTime() - cpu
		runtime.ReadMemStats(&after)
		n := float64(operations)
		best.Wall = min(best.Wall, float64(wall.Nanoseconds())/n)
		best.CPU = min(best.CPU, float64(cpu.Nanoseconds())/n)
		best.Allocated = min(best.Allocated, float64(after.TotalAlloc-before.TotalAlloc)/n)
	}
	return best
}

func (r result) holding(bytes float64) result {
	r.Held = bytes
	return r
}

func (r result) print() {
	for _, value := range []*float64{&r.Wall, &r.CPU, &r.Allocated, &r.Held, &r.AfterLoad} {
		*value = math.Round(*value*10) / 10
	}
	line, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// processorTime is that of the whole process: user and system.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// held is how much memory, heap and stacks, what fill makes needs for each of its items.
func held(items int, fill func() (keep any)) float64 {
	before := live()
	keep := fill()
	after := live()
	runtime.KeepAlive(keep)
	return max(0, float64(after)-float64(before)) / float64(items)
}

func live() uint64 {
	// Twice: what has a finalizer, and what was in pools, goes in the second.
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}
