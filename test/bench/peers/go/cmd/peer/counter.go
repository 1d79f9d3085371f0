package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sentAnnotation holds the CLOCK_REALTIME nanoseconds at which the server wrote the event; zero: not sent with a time.
const sentAnnotation = "bench/sent"

// counter is the one handler: it counts, and measures the events that say when they were sent.
type counter struct {
	adds, updates, deletes atomic.Int64
	latency                histogram
}

var _ cache.ResourceEventHandler = &counter{}

func (c *counter) OnAdd(any, bool) { c.adds.Add(1) }

func (c *counter) OnDelete(any) { c.deletes.Add(1) }

func (c *counter) OnUpdate(_, object any) {
	if text, ok := object.(metav1.Object).GetAnnotations()[sentAnnotation]; ok {
		if sent, err := strconv.ParseInt(text, 10, 64); err == nil && sent > 0 {
			c.latency.record(time.Now().UnixNano() - sent)
		}
	}
	if count := c.updates.Add(1); count%1000 == 0 {
		emit(map[string]any{"at": "events", "count": count})
	}
}

// histogram of nanoseconds in buckets of 1/32 of their power of two: within 1.6 %, and of constant size.
type histogram struct {
	mutex   sync.Mutex
	buckets [64 * 32]uint32
	count   uint64
}

func (h *histogram) record(nanoseconds int64) {
	value := uint64(max(nanoseconds, 32))
	exponent := bits.Len64(value) - 6
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.buckets[max(exponent, 0)*32+int(value>>max(exponent, 0))&31]++
	h.count++
}

// take returns count, median and 99th percentile in microseconds, and clears.
func (h *histogram) take() (count uint64, p50, p99 float64) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	count, p50, p99 = h.count, h.quantile(0.50), h.quantile(0.99)
	clear(h.buckets[:])
	h.count = 0
	return count, p50, p99
}

func (h *histogram) quantile(share float64) float64 {
	rank, below := uint64(share*float64(h.count)), uint64(0)
	for i, n := range h.buckets {
		if below += uint64(n); below > rank {
			return (float64(i%32) + 32.5) * float64(uint64(1)<<(i/32)) / 1000 // the middle of the bucket
		}
	}
	return 0
}

// digest is the SHA-256 of the sorted lines "namespace/name resourceVersion\n".
func digest(objects []metav1.Object) string {
	lines := make([]string, 0, len(objects))
	for _, object := range objects {
		lines = append(lines, fmt.Sprintf("%s %s\n", cache.MetaObjectToName(object), object.GetResourceVersion()))
	}
	slices.Sort(lines)
	hash := sha256.New()
	for _, line := range lines {
		hash.Write([]byte(line))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func metaOf(list client.ObjectList) []metav1.Object {
	var result []metav1.Object
	meta.EachListItem(list, func(object runtime.Object) error {
		result = append(result, object.(metav1.Object))
		return nil
	})
	return result
}

// contentType remembers what the server last answered in, so that a report can say it.
type contentType struct{ value atomic.Value }

func (c *contentType) String() string {
	text, _ := c.value.Load().(string)
	return text
}

func (c *contentType) observe(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil {
			c.value.Store(response.Header.Get("Content-Type"))
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
