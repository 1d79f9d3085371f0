// The corpus in memory, as it goes over the wire in each encoding; updates are made in place.
#pragma once

#include "support/pod_generator.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace informer::bench {

enum class encoding : unsigned { json, json_metadata, protobuf, protobuf_metadata };
inline constexpr std::size_t encodings = 4;

/// One version of one object. JSON: the members of the object after kind and apiVersion, with the closing brace.
/// Protobuf: `watch` is the watch event after its type, `list` is the object's message in it.
struct wire_text {
    std::string_view watch, list;
};

namespace wire_detail {

inline std::uint64_t varint(const char*& at, const char* end) {
    std::uint64_t v = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
        const auto byte = static_cast<unsigned char>(*at++);
        v |= std::uint64_t(byte & 127) << shift;
        if (byte < 128) return v;
    }
    throw std::runtime_error("a varint is broken");
}

/// The value of a length-delimited field of a message.
inline std::string_view field(std::string_view message, std::uint64_t number) {
    const char* at = message.data();
    const char* const end = at + message.size();
    while (at < end) {
        const std::uint64_t tag = varint(at, end);
        if ((tag & 7) != 2) throw std::runtime_error("a protobuf message of unknown form");
        const std::uint64_t size = varint(at, end);
        if (size > static_cast<std::uint64_t>(end - at)) throw std::runtime_error("a protobuf message is cut");
        if (tag >> 3 == number) return {at, static_cast<std::size_t>(size)};
        at += size;
    }
    throw std::runtime_error("a protobuf field is missing");
}

/// The position after the brace that closes the one at `text[0]`.
inline std::size_t closing_brace(std::string_view text) {
    std::size_t depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                in_string = false;
        } else if (c == '"')
            in_string = true;
        else if (c == '{')
            ++depth;
        else if (c == '}' && --depth == 0)
            return i + 1;
    }
    throw std::runtime_error("an object has no end");
}

inline std::string_view string_after(std::string_view text, std::string_view key) {
    const std::size_t at = text.find(key);
    if (at == std::string_view::npos) throw std::runtime_error(std::string("no ").append(key));
    const std::size_t begin = at + key.size();
    return text.substr(begin, text.find('"', begin) - begin);
}

} // namespace wire_detail

/// A file, mapped privately: writes go to copies of its pages.
class mapped_file {
public:
    explicit mapped_file(const std::string& path) {
        const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        struct stat s {};
        if (fd < 0 || ::fstat(fd, &s) != 0) throw std::runtime_error("cannot read " + path);
        size_ = static_cast<std::size_t>(s.st_size);
        void* const at = size_ ? ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) : nullptr;
        ::close(fd);
        if (at == MAP_FAILED) throw std::runtime_error("cannot map " + path);
        data_ = static_cast<char*>(at);
    }
    ~mapped_file() {
        if (data_) ::munmap(data_, size_);
    }
    mapped_file(const mapped_file&) = delete;
    mapped_file& operator=(const mapped_file&) = delete;

    char* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    char* data_ = nullptr;
    std::size_t size_ = 0;
};

class recorded_corpus {
public:
    explicit recorded_corpus(const std::string& folder) : folder_(folder) {
        std::ifstream file(folder + "/meta.json");
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        const boost::json::value meta = boost::json::parse(text);
        const auto word = [&](const char* key) { return std::string(meta.at(key).as_string()); };
        group = word("group");
        version = word("version");
        resource = word("resource");
        kind = word("kind");
        version_ = std::stoull(word("resourceVersion"));
        load_json();
        for (const bool metadata : {false, true}) load_protobuf(metadata);
    }

    std::string group, version, resource, kind;
    std::string api_version() const { return group.empty() ? version : group + "/" + version; }
    std::string path() const { return (group.empty() ? "/api/" : "/apis/" + group + "/") + version + "/" + resource; }

    std::size_t size() const noexcept { return now_[0].size(); }
    std::size_t updates() const noexcept { return events_.size(); }
    bool has(encoding e) const noexcept { return !now_[static_cast<std::size_t>(e)].empty(); }
    /// The newest version of an object so far.
    const wire_text& now(encoding e, std::size_t index) const { return now_[static_cast<std::size_t>(e)][index]; }
    std::uint64_t resource_version() const noexcept { return version_; }

    /// "namespace/name resourceVersion\n" of the current version of every object.
    std::vector<std::string> key_lines() const {
        std::vector<std::string> out;
        for (const wire_text& t : now_[0])
            out.push_back(key_of(t.watch) + " " +
                          std::string(wire_detail::string_after(t.watch, "\"resourceVersion\":\"")) + "\n");
        return out;
    }

    /// Makes the next update, which is then the newest version of its object, and returns the index of the object. Each
    /// round over all objects differs from the previous ones in version, container ids and times. `sent` goes into
    /// bench/sent.
    std::size_t update(std::uint64_t sent) {
        const std::size_t n = static_cast<std::size_t>(sequence_ % events_.size());
        const std::uint64_t round = sequence_++ / size();
        version_ = std::max(version_ + 1, first_update_version + sequence_);
        const std::size_t index = events_[n];
        const std::uint64_t salt = pod_mix(index * 64 + round + 1);
        for (std::size_t s = spot_begin_[n]; s < spot_begin_[n + 1]; ++s) {
            const spot& at = spots_[s];
            switch (at.what) {
            case spot_kind::version: digits(at.where, version_, 10); break;
            case spot_kind::sent: digits(at.where, sent, 20); break;
            case spot_kind::hex: hex(at.where, salt); break;
            case spot_kind::time: // MM:SS
                digits(at.where, salt % 60, 2);
                digits(at.where + 3, salt / 60 % 60, 2);
                break;
            }
        }
        for (std::size_t e = 0; e < encodings; ++e)
            if (!now_[e].empty()) now_[e][index] = updates_[e][n];
        return index;
    }

private:
    static constexpr std::uint64_t first_update_version = 1'200'000'000;
    enum class spot_kind : unsigned char { version, sent, hex, time };
    struct spot {
        char* where;
        spot_kind what;
    };

    static std::uint64_t pod_mix(std::uint64_t x) { return testing::pod_detail::mix(x); }
    static void digits(char* at, std::uint64_t v, std::size_t n) {
        for (std::size_t i = n; i-- > 0; v /= 10) at[i] = static_cast<char>('0' + v % 10);
    }
    static void hex(char* at, std::uint64_t v) {
        for (std::size_t i = 0; i < 8; ++i, v >>= 4) at[i] = "0123456789abcdef"[v & 15];
    }

    std::vector<std::string_view> lines(const char* name) {
        files_.push_back(std::make_unique<mapped_file>(folder_ + "/" + name));
        std::vector<std::string_view> out;
        const std::string_view all(files_.back()->data(), files_.back()->size());
        for (std::size_t at = 0; at < all.size();) {
            const std::size_t end = std::min(all.find('\n', at), all.size());
            if (end > at) out.push_back(all.substr(at, end - at));
            at = end + 1;
        }
        return out;
    }
    static std::string key_of(std::string_view line) {
        using wire_detail::string_after;
        const std::string_view metadata = line.substr(line.find("\"metadata\":{"));
        return std::string(string_after(metadata, "\"namespace\":\"")) + "/" +
               std::string(string_after(metadata, "\"name\":\""));
    }
    void add_json(std::string_view line, std::array<std::vector<wire_text>, encodings>& to) {
        const std::string_view body = line.substr(line.find("\"metadata\":{"));
        const std::size_t end =
            std::strlen("\"metadata\":") + wire_detail::closing_brace(body.substr(std::strlen("\"metadata\":")));
        to[0].push_back({body, body});
        const std::string_view metadata = body.substr(0, end); // the dialect adds the closing brace
        to[1].push_back({metadata, metadata});
    }

    void load_json() {
        std::unordered_map<std::string, std::uint32_t> index;
        for (const std::string_view line : lines("items.jsonl")) {
            index.emplace(key_of(line), static_cast<std::uint32_t>(index.size()));
            add_json(line, now_);
        }
        if (now_[0].empty() || ::access((folder_ + "/events.jsonl").c_str(), R_OK) != 0) return;
        for (const std::string_view line : lines("events.jsonl")) {
            events_.push_back(index.at(key_of(line)));
            add_json(line, updates_);
            versions_.emplace_back(wire_detail::string_after(line, "\"resourceVersion\":\""));
        }
        if (events_.empty()) return;
        find_spots(encoding::json);
    }

    std::vector<std::string_view> frames(const std::string& name) {
        files_.push_back(std::make_unique<mapped_file>(folder_ + "/" + name));
        std::vector<std::string_view> out;
        const char* at = files_.back()->data();
        for (const char* const end = at + files_.back()->size(); end - at >= 4;) {
            std::uint32_t size = 0;
            std::memcpy(&size, at, 4); // little-endian, like this machine
            at += 4;
            if (size > end - at) throw std::runtime_error(name + " is cut");
            out.emplace_back(at, size);
            at += size;
        }
        return out;
    }
    /// A whole watch event: WatchEvent{1: type, 2: RawExtension{1: "k8s\0" Unknown{2: object}}}.
    static wire_text of_frame(std::string_view frame) {
        using wire_detail::field;
        const std::string_view type = field(frame, 1), raw = field(field(frame, 2), 1);
        if (!raw.starts_with(std::string_view("k8s\0", 4)))
            throw std::runtime_error("a watch event without the magic number");
        const auto behind_type = static_cast<std::size_t>(type.data() + type.size() - frame.data());
        return {frame.substr(behind_type), field(raw.substr(4), 2)};
    }
    void load_protobuf(bool metadata) {
        const std::string prefix = metadata ? "pmeta_" : "";
        const auto e = static_cast<std::size_t>(metadata ? encoding::protobuf_metadata : encoding::protobuf);
        if (::access((folder_ + "/" + prefix + "initial.pb").c_str(), R_OK) != 0) return;
        for (const std::string_view f : frames(prefix + "initial.pb")) now_[e].push_back(of_frame(f));
        if (!events_.empty())
            for (const std::string_view f : frames(prefix + "events.pb")) updates_[e].push_back(of_frame(f));
        if (now_[e].size() != size() || updates_[e].size() != events_.size())
            throw std::runtime_error(prefix + "initial.pb, events.pb: not as many objects as in JSON");
        if (!events_.empty()) find_spots(metadata ? encoding::protobuf_metadata : encoding::protobuf);
    }

    /// Adds the places to overwrite in the updates of one more encoding.
    void find_spots(encoding e) {
        std::vector<spot> all;
        std::vector<std::size_t> begin;
        for (std::size_t n = 0; n < events_.size(); ++n) {
            begin.push_back(all.size());
            if (!spot_begin_.empty())
                all.insert(all.end(), spots_.begin() + static_cast<std::ptrdiff_t>(spot_begin_[n]),
                           spots_.begin() + static_cast<std::ptrdiff_t>(spot_begin_[n + 1]));
            const std::string_view text = updates_[static_cast<std::size_t>(e)][n].watch;
            const bool json = e == encoding::json;
            add_spots(all, text, json ? "\"resourceVersion\":\"" : versions_[n], json ? 19 : 0, 1, spot_kind::version);
            // JSON: "bench/sent":"…"; protobuf: the key, then the tag and the length of the value
            add_spots(all, text, "bench/sent", json ? 13 : 12, 1, spot_kind::sent);
            add_spots(all, text, "containerd://", 13, 2, spot_kind::hex);
            add_spots(all, text, "bench-revision-", 15, 1, spot_kind::hex);
            if (!json) continue;
            add_spots(all, text, "\"lastTransitionTime\":\"", 22 + 14, 3, spot_kind::time);
            add_spots(all, text, "\"renewTime\":\"", 13 + 14, 1, spot_kind::time);
        }
        begin.push_back(all.size());
        spots_ = std::move(all);
        spot_begin_ = std::move(begin);
    }
    static void add_spots(std::vector<spot>& to, std::string_view text, std::string_view needle, std::size_t offset,
                          unsigned most, spot_kind what) {
        std::size_t at = 0;
        for (unsigned n = 0; n < most; ++n) {
            at = text.find(needle, at);
            if (at == std::string_view::npos) return;
            to.push_back({const_cast<char*>(text.data()) + at + offset, what}); // the mapping is private and writable
            at += needle.size();
        }
    }

    std::string folder_;
    std::vector<std::unique_ptr<mapped_file>> files_;
    std::array<std::vector<wire_text>, encodings> now_, updates_;
    std::vector<std::uint32_t> events_; ///< the index of the object of the n-th update
    std::vector<std::string> versions_; ///< resource versions of the recorded updates
    std::vector<spot> spots_;
    std::vector<std::size_t> spot_begin_;
    std::uint64_t version_ = 0, sequence_ = 0;
};

} // namespace informer::bench
