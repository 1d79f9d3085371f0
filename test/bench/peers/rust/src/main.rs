//! Follows one resource with kube-rs' watcher and reflector and speaks the benchmark's line protocol: JSON lines on
//! stdout, commands on stdin (see ../../README.md). The driver measures it from outside.

mod counter;

use std::fmt::Debug;
use std::hash::Hash;
use std::io::{BufRead, Write};
#[cfg(feature = "jemalloc")]
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, anyhow, bail};
use clap::{Parser, ValueEnum};
use futures::StreamExt;
use k8s_openapi::api::{coordination::v1::Lease, core::v1 as core};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use counter::Counter;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(about = "The benchmark's peer program of kube-rs", disable_version_flag = true)]
struct Options {
    /// URL of the API server, http:// or https://
    #[arg(long, required_unless_present = "version")]
    server: Option<http::Uri>,
    #[arg(long, value_enum, default_value = "typed")]
    mode: Mode,
    /// Bearer token
    #[arg(long)]
    token: Option<String>,
    /// File with the server's CA certificate
    #[arg(long)]
    ca: Option<std::path::PathBuf>,
    /// What to follow: pods, configmaps, secrets, events, leases; in mode dynamic also resource.version.group.Kind
    #[arg(long, default_value = "pods")]
    resource: String,
    /// Begin with a watch-list instead of a LIST in pages of 500
    #[arg(long)]
    streaming: bool,
    /// Drop managedFields before an object reaches the store
    #[arg(long)]
    strip: bool,
    /// Print the versions of the libraries as JSON, and exit
    #[arg(long)]
    version: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Mode {
    /// Whole objects as structures
    Typed,
    /// Whole objects as trees of JSON values
    Dynamic,
    /// Metadata only
    Metadata,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if options.version {
        emit(versions());
        return Ok(());
    }
    let mut config = Config::new(options.server.clone().context("--server is required")?);
    config.root_cert_file = options.ca.clone();
    config.auth_info.token = options.token.clone().map(Into::into);
    let client = Client::try_from(config)?;

    if options.mode == Mode::Dynamic {
        let resource = api_resource(&options.resource)?;
        let api = Api::<DynamicObject>::all_with(client, &resource);
        return follow(api, resource, &options).await;
    }
    match options.resource.as_str() {
        "pods" => follow_kind::<core::Pod>(client, &options).await,
        "configmaps" => follow_kind::<core::ConfigMap>(client, &options).await,
        "secrets" => follow_kind::<core::Secret>(client, &options).await,
        "events" => follow_kind::<core::Event>(client, &options).await,
        "leases" => follow_kind::<Lease>(client, &options).await,
        other => bail!("unknown resource {other} (see --help)"),
    }
}

async fn follow_kind<K>(client: Client, options: &Options) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    match options.mode {
        Mode::Metadata => follow(Api::<PartialObjectMeta<K>>::all(client), (), options).await,
        _ => follow(Api::<K>::all(client), (), options).await,
    }
}

/// Runs until the command "quit" or the end of stdin. kube-rs has no indexes, so there is none by node.
async fn follow<K>(api: Api<K>, kind: K::DynamicType, options: &Options) -> anyhow::Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + Hash + Send + Sync,
{
    emit(json!({"at": "empty"}));
    let writer = reflector::store::Writer::new(kind);
    let store = writer.as_reader();
    let counter = Arc::new(Counter::default());
    let commands = {
        let (store, counter) = (store.clone(), counter.clone());
        move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                match line.trim() {
                    "quit" => break,
                    command => answer(command, &store, &counter),
                }
            }
            std::process::exit(0); // also at the end of stdin: no peer outlives its driver
        }
    };
    std::thread::spawn(commands);

    let config = watcher::Config::default();
    let config = if options.streaming { config.streaming_lists() } else { config };
    let strip = options.strip;
    let mut events = watcher(api, config)
        .default_backoff()
        .modify(move |object| {
            if strip {
                object.meta_mut().managed_fields = None;
            }
        })
        .reflect(writer)
        .boxed();
    let mut synced = false;
    while let Some(event) = events.next().await {
        match event {
            // kube-rs does not tell an added object from a modified one: what comes after the first list counts as updated.
            Ok(watcher::Event::InitApply(_)) if !synced => _ = counter.adds.fetch_add(1, Relaxed),
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                if let Some(count) = counter.updated(object.annotations()) {
                    emit(json!({"at": "events", "count": count}));
                }
            }
            Ok(watcher::Event::Delete(_)) => _ = counter.deletes.fetch_add(1, Relaxed),
            Ok(watcher::Event::InitDone) if !synced => {
                synced = true;
                emit(json!({"at": "synced", "objects": store.len(), "content_type": "application/json"}));
            }
            Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
            Err(error) => eprintln!("bench_peer: {error}"),
        }
    }
    bail!("the stream of events ended")
}

fn answer<K>(command: &str, store: &reflector::Store<K>, counter: &Counter)
where
    K: Resource + Clone + 'static,
    K::DynamicType: Clone + Eq + Hash,
{
    match command {
        "count" => emit(json!({
            "at": "events",
            "count": counter.updates.load(Relaxed),
            "adds": counter.adds.load(Relaxed),
            "deletes": counter.deletes.load(Relaxed),
        })),
        "force" => {
            release_memory();
            emit(json!({"at": "forced"}));
        }
        "latency" => {
            let (count, p50, p99) = counter.latency.lock().unwrap().take();
            emit(json!({"at": "latency", "count": count, "p50_us": p50, "p99_us": p99}));
        }
        "digest" => {
            let objects = store.state();
            emit(json!({"at": "digest", "objects": objects.len(), "sha256": counter::digest(&objects)}));
        }
        "" => {}
        other => emit(json!({"at": "error", "message": format!("unknown command {other}")})),
    }
}

/// There is no collector to force; the allocator gives back what it holds free.
fn release_memory() {
    #[cfg(feature = "jemalloc")]
    // SAFETY: the command takes and returns no value; 4096 stands for all arenas (MALLCTL_ARENAS_ALL).
    unsafe {
        let purge = c"arena.4096.purge".as_ptr();
        let result = tikv_jemalloc_sys::mallctl(purge, null_mut(), null_mut(), null_mut(), 0);
        assert_eq!(result, 0, "jemalloc refuses to purge");
    }
    #[cfg(all(not(feature = "jemalloc"), target_env = "gnu"))]
    // SAFETY: has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn api_resource(text: &str) -> anyhow::Result<ApiResource> {
    let (plural, version, group, kind) = match text {
        "pods" => (text, "v1", "", "Pod"),
        "configmaps" => (text, "v1", "", "ConfigMap"),
        "secrets" => (text, "v1", "", "Secret"),
        "events" => (text, "v1", "", "Event"),
        "leases" => (text, "v1", "coordination.k8s.io", "Lease"),
        _ => {
            let unknown = || anyhow!("unknown resource {text} (see --help)");
            let (plural, rest) = text.split_once('.').ok_or_else(unknown)?;
            let (version, rest) = rest.split_once('.').ok_or_else(unknown)?;
            let (group, kind) = rest.rsplit_once('.').ok_or_else(unknown)?;
            (plural, version, group, kind)
        }
    };
    Ok(ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural))
}

/// Writes one JSON line and flushes it.
fn emit(value: Value) {
    let mut out = std::io::stdout().lock();
    // A driver that went away ends us by the end of stdin.
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

fn versions() -> Value {
    let lock = include_str!("../Cargo.lock");
    let version = |name: &str| {
        let entry = lock.split("[[package]]").find(|entry| entry.contains(&format!("name = \"{name}\"\n")))?;
        Some(entry.split_once("version = \"")?.1.split_once('"')?.0)
    };
    let allocator = if cfg!(feature = "jemalloc") { "jemalloc" } else { "system" };
    json!({"kube": version("kube"), "k8s-openapi": version("k8s-openapi"), "allocator": allocator})
}
