"""Who is measured, and how their programs are built."""
import json
import os
import pathlib
import re
import shutil
import subprocess

from driver import programs

sources = pathlib.Path(__file__).resolve().parents[1] / "peers"
built = programs.folder / "peers"


class Peer:
    """One way of following pods. `bar`: keeps whole objects (a peer of the full informer, else of the metadata-only one). `everywhere`: at
    every scale, else at the main one only."""

    def __init__(self, name, family, program, mode, options=(), bar=True, protobuf=False, everywhere=True):
        self.name, self.family, self.program, self.mode = name, family, program, mode
        self.options, self.bar, self.protobuf, self.everywhere = list(options), bar, protobuf, everywhere

    def command(self, server, corpus):
        command = [self.program, "--server", server.url, "--mode", self.mode, *self.options]
        if server.ca:
            command += ["--ca", server.ca]
        meta = corpus.meta
        if self.family == "libinformer":
            return command + ["--resource", meta["resource"], "--group", meta["group"], "--version", meta["version"], "--kind", meta["kind"]]
        if meta["group"] and (self.family == "client-go" or self.mode == "dynamic"):
            kind = "." + meta["kind"] if self.family == "kube-rs" else ""
            return command + ["--resource", "%s.%s.%s%s" % (meta["resource"], meta["version"], meta["group"], kind)]
        return command + ["--resource", meta["resource"]]


def ours(mode="watchlist", name="libinformer", options=()):
    return Peer(name, "libinformer", programs.folder / "bench_libinformer", mode, options, bar=mode != "metadata")


def go_program(name):
    """Builds test/bench/peers/go/cmd/NAME."""
    if not (sources / "go" / "go.mod").exists():
        raise programs.Unavailable("test/bench/peers/go is not there")
    if not shutil.which("go"):
        raise programs.Unavailable("Go is not installed here (https://go.dev/dl): no client-go, no controller-runtime, no protobuf")
    out = built / name
    built.mkdir(parents=True, exist_ok=True)
    programs.log("building %s (Go) …" % name)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOCACHE": str(programs.cache / "go-build")}
    result = subprocess.run(["go", "build", "-trimpath", "-o", out, "./cmd/" + name], cwd=sources / "go", env=environment)
    if result.returncode != 0:
        raise programs.Unavailable("the Go program %s could not be built (above)" % name)
    return out


def beside(found, kind):
    """Of client-go and kube-rs those that follow another kind most sparingly: typed and stripped. Custom resources have no types and no protobuf."""
    for p in found:
        if "--strip" in p.options:
            yield Peer(p.name, p.family, p.program, "dynamic", p.options) if kind == "crs" else p


def client_go_dynamic():
    """The one of client-go's informers that follows whatever kind; from a list in one piece."""
    return Peer("client-go dynamic", "client-go", go_program("peer"), "dynamic", ["--list"])


def rust_program():
    if not (sources / "rust" / "Cargo.toml").exists():
        raise programs.Unavailable("test/bench/peers/rust is not there")
    if not shutil.which("cargo"):
        raise programs.Unavailable("Cargo is not installed here (https://rustup.rs): no kube-rs")
    built.mkdir(parents=True, exist_ok=True)
    target = programs.cache / "cargo-target"
    programs.log("building bench_peer (Rust) …")
    command = ["cargo", "build", "--release", "--locked", "--target-dir", target, "-j", "2"]
    if subprocess.run(command, cwd=sources / "rust").returncode != 0:
        raise programs.Unavailable("the Rust program could not be built (above)")
    out = built / "kube-rs"
    shutil.copy2(target / "release" / "bench_peer", out)
    return out


def go_versions():
    """Of what the Go programs are compared by."""
    return dict(re.findall(r"^\s*\S*/(client-go|controller-runtime) v(\S+)$", (sources / "go/go.mod").read_text(), re.M))


def versions_of(program):
    """What a peer says it is made of: {name: version}."""
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
        found = json.loads(answer.splitlines()[0])
        return {k: v for k, v in found.items() if isinstance(v, str) and k != "at"}
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}


def binary_size(program):
    """Bytes without symbols and debug information."""
    stripped = built / (pathlib.Path(program).name + ".stripped")
    built.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["strip", "-o", stripped, program], check=True, capture_output=True)
        return stripped.stat().st_size
    except (OSError, subprocess.SubprocessError):
        return pathlib.Path(program).stat().st_size
    finally:
        stripped.unlink(missing_ok=True)


def find_all(only=None):
    """All peers that can run here, and why others cannot. `only`: a part of a name."""
    found, missing, versions = [ours()], [], {}
    found.append(ours("metadata", "libinformer metadata"))

    def wanted(*names):
        return not only or any(only in n for n in names)

    go = {"client-go typed protobuf": "typed-protobuf", "client-go stripped": "typed-protobuf", "client-go typed JSON": "typed-json", "client-go dynamic": "dynamic",
          "client-go metadata": "metadata", "controller-runtime": "controller-runtime"}
    if wanted(*go):
        try:
            program = go_program("peer")
            versions.update(versions_of(program))
            for name, mode in go.items():
                strip = name == "client-go stripped"
                found.append(Peer(name, "client-go", program, mode, ["--strip"] if strip else [], bar=mode != "metadata",
                                  protobuf=mode not in ("typed-json", "dynamic"), everywhere=not strip))
        except programs.Unavailable as why:
            missing.append(str(why))
    rust = {"kube-rs typed": "typed", "kube-rs stripped": "typed", "kube-rs dynamic": "dynamic", "kube-rs metadata": "metadata"}
    if wanted(*rust):
        try:
            program = rust_program()
            versions.update(versions_of(program))
            for name, mode in rust.items():
                strip = ["--strip"] if name == "kube-rs stripped" else []
                found.append(Peer(name, "kube-rs", program, mode, ["--streaming", *strip], bar=mode != "metadata"))
        except programs.Unavailable as why:
            missing.append(str(why))
    return [p for p in found if wanted(p.name)], missing, versions
