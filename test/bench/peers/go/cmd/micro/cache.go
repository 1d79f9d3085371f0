package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// caches measures controller-runtime's reader: with the copies that it makes by default, and without.
func caches(o options) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pods := o.makePods(podCount)
	objects, _ := o.cacheOf(ctx, pods)

	variants := []struct {
		suffix string
		get    []client.GetOption
		list   []client.ListOption
		factor int
	}{
		{"", nil, nil, 1},
		{"_without_copy", []client.GetOption{client.UnsafeDisableDeepCopy}, []client.ListOption{client.UnsafeDisableDeepCopy}, 10},
	}
	for _, variant := range variants {
		gets, lists := 20_000*variant.factor, 100*variant.factor
		o.measure("cache/get"+variant.suffix, gets, func(int) {
			for i := range gets {
				var pod corev1.Pod
				must(objects.Get(ctx, client.ObjectKeyFromObject(pods[i%podCount]), &pod, variant.get...))
			}
		}).print()
		list := func(name string, results, times int, how ...client.ListOption) {
			how = append(how, variant.list...)
			o.measure("cache/"+name+variant.suffix, times, func(int) {
				for range times {
					var list corev1.PodList
					err := objects.List(ctx, &list, how...)
					mustBe(results, len(list.Items), err)
				}
			}).print()
		}
		list("list_by_index_100", podCount/nodes, lists, client.MatchingFields{byNode: "node-7"})
		list("list_namespace_500", podCount/namespaces, lists, client.InNamespace("ns-7"))
		list("list_selector_20_of_10000", replicas, lists/10, client.MatchingLabels{"app": "app-7", "tier": "backend"})
		list("list_10000", podCount, lists/10)
	}
}

// cacheOf is a cache of these pods, without a server, and its informer.
func (o options) cacheOf(ctx context.Context, pods []*corev1.Pod) (objects ctrlcache.Cache, informer toolscache.SharedIndexInformer) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	objects, err := ctrlcache.New(&rest.Config{}, ctrlcache.Options{
		Scheme: scheme.Scheme,
		Mapper: mapper,
		NewInformer: func(_ toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			informer = toolscache.NewSharedIndexInformer(inMemory(pods, nil), example, resync, indexers)
			return informer
		},
	})
	must(err)
	must(objects.IndexField(ctx, &corev1.Pod{}, byNode, func(object client.Object) []string {
		return []string{object.(*corev1.Pod).Spec.NodeName}
	}))
	go objects.Start(ctx)
	objects.WaitForCacheSync(ctx)
	return objects, informer
}
