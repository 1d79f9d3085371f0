#include "patience.hpp"
#include "session.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/task_group.hpp>

#include <cstdio>

namespace informerctl {
namespace {

using informer::shared_informer;

std::string number(double d, int digits) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.*f", digits, d);
    return buffer;
}

/// Prints what a phase cost: the figures of now less those of `before`.
void print_phase(session& s, const char* phase, const process_figures& before, const informer::informer_status& status,
                 std::uint64_t events) {
    const auto now = measure_process();
    const double wall = now.wall_s - before.wall_s, user = now.user_s - before.user_s, sys = now.sys_s - before.sys_s;
    const double pool_mb = static_cast<double>(status.pool.bytes) / 1e6;
    const double per_object =
        status.objects ? static_cast<double>(status.pool.bytes) / static_cast<double>(status.objects) : 0;
    if (s.line.json) {
        s.out.line(std::string("{\"phase\":\"") + phase + "\",\"objects\":" + std::to_string(status.objects) +
                   ",\"events\":" + std::to_string(events) + ",\"wall_s\":" + number(wall, 6) +
                   ",\"user_s\":" + number(user, 6) + ",\"sys_s\":" + number(sys, 6) +
                   ",\"rss_mb\":" + number(now.rss_mb, 3) + ",\"peak_rss_mb\":" + number(now.peak_rss_mb, 3) +
                   ",\"pool_mb\":" + number(pool_mb, 3) + ",\"bytes_per_object\":" + number(per_object, 1) +
                   ",\"resource_version\":\"" + status.resource_version.str() + "\"}");
    } else {
        s.out.line(std::string(phase) + ": " + std::to_string(status.objects) + " objects of " + s.describe() + ", " +
                   std::to_string(events) + " updates, at resource version " + status.resource_version.str());
        s.out.line("  time    " + number(wall, 3) + " s wall, " + number(user, 3) + " s user, " + number(sys, 3) +
                   " s system");
        s.out.line("  memory  " + number(now.rss_mb, 1) + " MB resident, " + number(now.peak_rss_mb, 1) +
                   " MB at its peak");
        s.out.line("  pool    " + number(pool_mb, 2) + " MB, " + number(per_object, 0) + " bytes per object");
        for (const auto& b : status.quarantine) s.out.line("  bad     " + visible(s.name_of(b) + ": " + b.why.what()));
    }
    s.out.flush();
}

/// State that the callbacks set.
struct sync_state {
    explicit sync_state(const informer::clock& c) : before_sync(c) {}

    patience before_sync;
    bool synced = false;
    process_figures cost;       ///< at the moment of the sync
    std::uint64_t modified = 0; ///< MODIFIED events applied by then
};

} // namespace

asio::awaitable<int> run_sync(std::shared_ptr<session> s) {
    const auto from = co_await find_source(s);
    auto options = s->informer_options();
    for (const auto& [name, pointer] : s->line.indexes) options.index(name, informer::index_by_pointer(pointer));
    auto cache = std::make_shared<shared_informer>(s->runtime, from, options);

    auto at = std::make_shared<sync_state>(s->runtime.clock());
    auto bar = std::make_shared<progress>("syncing " + s->describe());
    // Printed inside the callback, as events that follow at once belong to the next phase.
    cache->on_state_change([at, bar, raw = s.get(), weak = std::weak_ptr(cache)](const informer::informer_status& now) {
        if (at->before_sync.over(now)) {
            if (const auto i = weak.lock()) i->stop();
            return;
        }
        if (at->synced || !now.synced) return;
        at->synced = true;
        at->modified = now.events_modified;
        bar->clear();
        print_phase(*raw, "synced", process_figures(), now, 0);
        at->cost = measure_process();
    });
    informer::task_group group(s->runtime.executor());
    group.spawn(cache->run());

    int code = 0;
    while (!at->synced && cache->status().phase != informer::informer_phase::stopped) {
        const auto now = cache->status();
        bar->show(now.bytes_received / 1'000'000, 0, "MB");
        co_await s->runtime.clock().sleep_for(std::chrono::milliseconds(5));
    }
    bar->clear();
    if (!at->synced) {
        code = complain(at->before_sync.why() ? at->before_sync.why().what()
                                              : "the informer stopped before it was synced");
    } else if (s->line.updates > 0) {
        bar = std::make_shared<progress>("waiting for updates");
        informer::informer_status now;
        for (;;) {
            now = cache->status();
            const auto seen = now.events_modified - at->modified;
            if (seen >= s->line.updates || s->out.closed() || now.phase == informer::informer_phase::stopped) break;
            bar->show(seen, s->line.updates, "updates");
            co_await s->runtime.clock().sleep_for(std::chrono::milliseconds(5));
        }
        bar->clear();
        print_phase(*s, "events", at->cost, now, now.events_modified - at->modified);
    }
    cache->stop();
    co_await group.join();
    co_return code;
}

} // namespace informerctl
