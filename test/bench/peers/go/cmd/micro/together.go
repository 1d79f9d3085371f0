package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	eventRate  = 20_000 // a second
	batch      = 100    // of them at once
	getsARound = 1000
)

// reading is what a reader does; each function returns how many objects it was given.
type reading struct {
	name                            string
	all, byNode, namespace, byLabel func(n uint64) int
	get                             func(n uint64) int
}

// together measures readers of a store while a goroutine updates it at a steady rate: client-go's, read through it and its
// listers, and the one in controller-runtime's cache, read through that.
func together(o options) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	versions := [2][]*corev1.Pod{o.makePods(podCount), o.makePods(podCount)}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, podIndexers())
	for _, pod := range versions[0] {
		must(indexer.Add(pod))
	}
	pointers := pointersOf(indexer, versions[0])
	for readers := range 5 {
		o.together(pointers, readers, indexer, versions)
	}
	objects, informer := o.cacheOf(ctx, versions[0])
	copies := copiesOf(ctx, objects, versions[0])
	for readers := range 5 {
		o.together(copies, readers, informer.GetIndexer(), versions)
	}
}

func nodeOf(n uint64) string      { return "node-" + strconv.FormatUint(n%nodes, 10) }
func namespaceOf(n uint64) string { return "ns-" + strconv.FormatUint(n%namespaces, 10) }

var oneApp = labels.Set{"app": "app-7", "tier": "backend"}

func pointersOf(indexer cache.Indexer, pods []*corev1.Pod) reading {
	keys := make([]string, len(pods))
	for i, pod := range pods {
		keys[i] = cache.MetaObjectToName(pod).String()
	}
	lister, selector := corelisters.NewPodLister(indexer), labels.SelectorFromSet(oneApp)
	return reading{
		name: "client-go",
		all: func(uint64) int {
			seen := 0
			for _, object := range indexer.List() {
				if object.(*corev1.Pod).Name != "" {
					seen++
				}
			}
			return seen
		},
		get: func(n uint64) int {
			object, exists, err := indexer.GetByKey(keys[n%podCount])
			if must(err); !exists || object == nil {
				return 0
			}
			return 1
		},
		byNode: func(n uint64) int {
			found, err := indexer.ByIndex(byNode, nodeOf(n))
			must(err)
			return len(found)
		},
		namespace: func(n uint64) int {
			found, err := lister.Pods(namespaceOf(n)).List(labels.Everything())
			must(err)
			return len(found)
		},
		byLabel: func(uint64) int {
			found, err := lister.List(selector)
			must(err)
			return len(found)
		},
	}
}

func copiesOf(ctx context.Context, objects client.Reader, pods []*corev1.Pod) reading {
	keys := make([]client.ObjectKey, len(pods))
	for i, pod := range pods {
		keys[i] = client.ObjectKeyFromObject(pod)
	}
	list := func(how ...client.ListOption) []corev1.Pod {
		var list corev1.PodList
		must(objects.List(ctx, &list, how...))
		return list.Items
	}
	return reading{
		name: "controller-runtime",
		all: func(uint64) int {
			seen := 0
			for _, pod := range list() {
				if pod.Name != "" {
					seen++
				}
			}
			return seen
		},
		get: func(n uint64) int {
			var pod corev1.Pod
			must(objects.Get(ctx, keys[n%podCount], &pod))
			return 1
		},
		byNode:    func(n uint64) int { return len(list(client.MatchingFields{byNode: nodeOf(n)})) },
		namespace: func(n uint64) int { return len(list(client.InNamespace(namespaceOf(n)))) },
		byLabel:   func(uint64) int { return len(list(client.MatchingLabels(oneApp))) },
	}
}

// round is as that of bench_reads.
func (r reading) round(x *uint64) int {
	next := func() uint64 {
		*x ^= *x << 13
		*x ^= *x >> 7
		*x ^= *x << 17
		return *x
	}
	read := r.all(0)
	for range getsARound {
		read += r.get(next())
	}
	read += r.byNode(next()) + r.namespace(next()) + r.byLabel(0)
	mustBe(podCount+getsARound+podCount/nodes+podCount/namespaces+replicas, read, nil)
	return read
}

type togetherResult struct {
	Name          string  `json:"name"`
	Threads       int     `json:"threads"`
	EventsPerS    float64 `json:"events_per_s"`
	WriterNs      float64 `json:"writer_ns_per_event"`
	BatchP99      float64 `json:"batch_p99_us"`
	BatchMost     float64 `json:"batch_max_us"`
	ObjectsPerCPU float64 `json:"objects_per_cpu_s"` // of all threads but the writer's: garbage collection is the readers'
	LockWait      float64 `json:"lock_wait_s_per_s"` // of all goroutines
}

func (o options) together(r reading, readers int, store cache.Indexer, versions [2][]*corev1.Pod) {
	runtime.GC()
	var stop atomic.Bool
	var running sync.WaitGroup
	var read atomic.Int64
	waited, cpu := lockWait(), processorTime()
	for i := range readers {
		running.Go(func() {
			x := uint64(88172645463325252 + i)
			for !stop.Load() {
				read.Add(int64(r.round(&x)))
			}
		})
	}
	result := togetherResult{Name: "together/" + r.name, Threads: readers}
	var writing time.Duration
	written := make(chan struct{})
	go func() {
		defer close(written)
		runtime.LockOSThread() // its processor time is that of its thread
		defer runtime.UnlockOSThread()
		var batches []float64 // microseconds
		var inUpdates time.Duration
		sent, before, begin := 0, threadTime(), time.Now()
		end, pause := begin.Add(o.lasts), time.Second*batch/eventRate
		for due := begin; due.Before(end) && time.Now().Before(end); due = due.Add(pause) {
			time.Sleep(time.Until(due))
			start, cpuStart := time.Now(), threadTime()
			for range batch {
				must(store.Update(versions[(sent/podCount+1)%2][sent%podCount]))
				sent++
			}
			inUpdates += threadTime() - cpuStart
			batches = append(batches, float64(time.Since(start).Nanoseconds())/1000)
		}
		result.EventsPerS = float64(sent) / time.Since(begin).Seconds()
		writing = threadTime() - before
		result.WriterNs = float64(inUpdates.Nanoseconds()) / float64(sent)
		slices.Sort(batches)
		result.BatchP99, result.BatchMost = batches[len(batches)*99/100], batches[len(batches)-1]
	}()
	<-written
	result.LockWait = (lockWait() - waited) / o.lasts.Seconds()
	stop.Store(true)
	running.Wait()
	if readers > 0 {
		result.ObjectsPerCPU = math.Round(float64(read.Load()) / (processorTime() - cpu - writing).Seconds())
	}
	line, err := json.Marshal(result)
	must(err)
	fmt.Println(string(line))
}

// threadTime is that of the calling thread.
func threadTime() time.Duration {
	var now unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now))
	return time.Duration(now.Nano())
}

// lockWait is how many seconds goroutines have waited for locks, all together.
func lockWait() float64 {
	sample := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64()
}
