package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	protobuf = runtime.ContentTypeProtobuf
	byNode   = "spec.nodeName"
)

// follower is one informer, ready to be started.
type follower struct {
	// start registers the handler, runs the informer until ctx ends, and returns the handler's registration.
	start func(ctx context.Context, handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
	// objects is what the informer's cache holds.
	objects func() []metav1.Object
}

// A maker's transform is what becomes of an object before it is stored, or nil.
type maker func(config *rest.Config, resource schema.GroupVersionResource, transform cache.TransformFunc) (*follower, error)

var modes = map[string]maker{
	"typed-json": func(config *rest.Config, resource schema.GroupVersionResource, transform cache.TransformFunc) (*follower, error) {
		return typed(config, runtime.ContentTypeJSON, resource, transform)
	},
	// Only protobuf is accepted, so that a server without it is an error instead of a wrong label.
	"typed-protobuf": func(config *rest.Config, resource schema.GroupVersionResource, transform cache.TransformFunc) (*follower, error) {
		return typed(config, protobuf, resource, transform)
	},
	"dynamic":            dynamically,
	"metadata":           metadataOnly,
	"controller-runtime": controllerRuntime,
}

func modeNames() []string { return slices.Sorted(maps.Keys(modes)) }

func newFollower(mode string, config *rest.Config, resource string, strip bool) (*follower, error) {
	make, ok := modes[mode]
	if !ok {
		return nil, fmt.Errorf("unknown mode %q, there are %s", mode, strings.Join(modeNames(), ", "))
	}
	var transform cache.TransformFunc
	if strip {
		transform = withoutManagedFields
	}
	return make(config, parseResource(resource), transform)
}

// withoutManagedFields is the transform that the documentation of SetTransform has in mind: it saves memory.
func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil { // a tombstone has none
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// parseResource understands resource.version.group and the plain names of what the benchmark follows.
func parseResource(text string) schema.GroupVersionResource {
	if full, _ := schema.ParseResourceArg(text); full != nil {
		return *full
	}
	if text == "leases" {
		return coordinationv1.SchemeGroupVersion.WithResource(text)
	}
	return corev1.SchemeGroupVersion.WithResource(text)
}

func typed(config *rest.Config, contentType string, resource schema.GroupVersionResource, transform cache.TransformFunc) (*follower, error) {
	config.ContentType = contentType
	config.AcceptContentTypes = contentType
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	generic, err := factory.ForResource(resource)
	if err != nil {
		return nil, err
	}
	return shared(generic.Informer(), transform, func(object any) []string {
		if pod, ok := object.(*corev1.Pod); ok {
			return []string{pod.Spec.NodeName}
		}
		return nil
	}, factory.Start)
}

func dynamically(config *rest.Config, resource schema.GroupVersionResource, transform cache.TransformFunc) (*follower, error) {
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, 0)
	return shared(factory.ForResource(resource).Informer(), transform, func(object any) []string {
		node, found, _ := unstructured.NestedString(object.(*unstructured.Unstructured).Object, "spec", "nodeName")
		if !found {
			return nil
		}
		return []string{node}
	}, factory.Start)
}

// metadataOnly has no index by node: the node's name is not part of the metadata.
func metadataOnly(config *rest.Config, resource schema.GroupVersionResource, transform cache.TransformFunc) (*follower, error) {
	metadataClient, err := metadata.NewForConfig(config) // asks for protobuf by itself
	if err != nil {
		return nil, err
	}
	factory := metadatainformer.NewSharedInformerFactory(metadataClient, 0)
	return shared(factory.ForResource(resource).Informer(), transform, nil, factory.Start)
}

// shared is what all of client-go's informers have in common.
func shared(informer cache.SharedIndexInformer, transform cache.TransformFunc, nodeOf func(object any) []string, start func(stop <-chan struct{})) (*follower, error) {
	if transform != nil {
		if err := informer.SetTransform(transform); err != nil {
			return nil, err
		}
	}
	if nodeOf != nil {
		index := func(object any) ([]string, error) { return nodeOf(object), nil }
		if err := informer.AddIndexers(cache.Indexers{byNode: index}); err != nil {
			return nil, err
		}
	}
	return &follower{
		start: func(ctx context.Context, handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
			registration, err := informer.AddEventHandler(handler)
			start(ctx.Done())
			return registration, err
		},
		objects: func() []metav1.Object {
			var result []metav1.Object
			for _, object := range informer.GetStore().List() {
				result = append(result, object.(metav1.Object))
			}
			return result
		},
	}, nil
}

// controllerRuntime is the cache that its manager makes, with the field index that reconcilers use. It chooses protobuf
// by itself for the types of Kubernetes, and maps kinds to resources by discovery.
func controllerRuntime(config *rest.Config, resource schema.GroupVersionResource, transform cache.TransformFunc) (*follower, error) {
	var object client.Object
	var objectList client.ObjectList
	switch resource.Resource {
	case "pods":
		object, objectList = &corev1.Pod{}, &corev1.PodList{}
	case "configmaps":
		object, objectList = &corev1.ConfigMap{}, &corev1.ConfigMapList{}
	case "secrets":
		object, objectList = &corev1.Secret{}, &corev1.SecretList{}
	case "events":
		object, objectList = &corev1.Event{}, &corev1.EventList{}
	case "leases":
		object, objectList = &coordinationv1.Lease{}, &coordinationv1.LeaseList{}
	default:
		return nil, fmt.Errorf("mode controller-runtime follows pods, configmaps, secrets, events, leases; not %s", resource.Resource)
	}
	ctrllog.SetLogger(klog.Background())
	objects, err := ctrlcache.New(config, ctrlcache.Options{Scheme: scheme.Scheme, DefaultTransform: transform})
	if err != nil {
		return nil, err
	}
	return &follower{
		start: func(ctx context.Context, handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
			if _, ok := object.(*corev1.Pod); ok {
				node := func(object client.Object) []string { return []string{object.(*corev1.Pod).Spec.NodeName} }
				if err := objects.IndexField(ctx, object, byNode, node); err != nil {
					return nil, err
				}
			}
			informer, err := objects.GetInformer(ctx, object, ctrlcache.BlockUntilSynced(false))
			if err != nil {
				return nil, err
			}
			registration, err := informer.AddEventHandler(handler)
			go func() {
				if err := objects.Start(ctx); err != nil {
					fmt.Fprintln(os.Stderr, "peer:", err)
				}
			}()
			return registration, err
		},
		objects: func() []metav1.Object {
			list := objectList.DeepCopyObject().(client.ObjectList)
			// Without copies: looking at the cache must not change what is measured.
			if err := objects.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
				panic(err)
			}
			return metaOf(list)
		},
	}, nil
}
