#include "meshbus/local.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "agent/proc/runtime/runtime.h"
#include "client/local/local_host.h"
#include "client/src/allocate/host_ends.h"
#include "client/src/allocate/process_allocation.h"
#include "client/src/context/context_core.h"

namespace meshbus {
namespace {

using local::LocalHost;
using Clock = std::chrono::steady_clock;
using Hosts = std::vector<std::shared_ptr<LocalHost>>;

/// What a host that is ended by force may take: its procs get a second of it.
constexpr std::chrono::seconds kForceLimit{3};

/// All local hosts of this process, so that their threads are gone before it exits, whatever has or
/// had them.
class HostThreads {
 public:
  static HostThreads& all() {
    static HostThreads& only = *new HostThreads;
    return only;
  }
  void add(std::shared_ptr<LocalHost> host) {
    const std::lock_guard lock(mutex_);
    hosts_.push_back(std::move(host));
    if (std::exchange(is_registered_, true)) return;
    static const pid_t owner = ::getpid();
    std::atexit([] {
      if (::getpid() == owner) all().end();
    });
  }
  /// Lets go of those that have ended and that nobody else has.
  void sweep() {
    const std::lock_guard lock(mutex_);
    std::erase_if(hosts_, [](const auto& host) {
      return host.use_count() == 1 && host->wait_end(Clock::now());
    });
  }

 private:
  void end() {
    Hosts hosts;
    {
      const std::lock_guard lock(mutex_);
      hosts = hosts_;
    }
    for (const auto& host : hosts) host->kill("its process exits");
    for (const auto& host : hosts) host->wait_end(Clock::now() + kForceLimit);
    hosts.clear();
    sweep();
  }

  std::mutex mutex_;
  Hosts hosts_;  // guarded by mutex_
  bool is_registered_ = false;
};

class LocalAllocation final : public Allocation {
 public:
  LocalAllocation(std::shared_ptr<ContextCore> core, Extent extent, std::vector<HostAddr> addresses,
                  Hosts hosts, const LaunchedHost::Teller& tell)
      : Allocation(std::move(extent), std::move(addresses)),
        core_(std::move(core)),
        hosts_(std::move(hosts)) {
    for (std::uint64_t rank = 0; rank < hosts_.size(); ++rank) {
      hosts_[rank]->when_ended([rank, tell, ends = ends(), weak = std::weak_ptr(core_),
                                address = this->hosts()[rank]](const auto& ended) {
        ends->note(rank, {.how = ended.how});
        const auto kind =
            ended.is_in_order ? AllocationEvent::Kind::stopped : AllocationEvent::Kind::failed;
        if (const auto there = weak.lock()) tell({kind, rank, address, ended.how});
      });
    }
  }
  ~LocalAllocation() override {
    if (!core_->check_process()) {
      // A forked child: the hosts are its parent's.
      new Hosts(std::move(hosts_));
      return;
    }
    for (const auto& host : hosts_) host->stop("its launcher let go of it");
    hosts_.clear();
    HostThreads::all().sweep();
  }

  Result<void> stop(std::chrono::milliseconds deadline) override {
    if (auto fine = core_->check_may_wait(); !fine) return fine;
    const auto end =
        Clock::now() + std::min<std::chrono::milliseconds>(deadline, std::chrono::hours(24));
    for (const auto& host : hosts_) host->stop("it was stopped");
    std::string problems;
    for (std::size_t rank = 0; rank < hosts_.size(); ++rank) {
      auto ended = hosts_[rank]->wait_end(end);
      std::string problem;
      if (!ended) {
        hosts_[rank]->kill("it did not end in time");
        ended = hosts_[rank]->wait_end(Clock::now() + kForceLimit);
        problem = ended ? "it did not end by itself and was ended by force" : "it is still there";
      }
      if (ended && ended->left > 0)
        problem =
            std::to_string(ended->left) +
            " of its procs have not ended: their threads do not return, and are left to themselves";
      if (problem.empty()) continue;
      problems += (problems.empty() ? "host " : "; host ") + std::to_string(rank) + " (" +
                  hosts()[rank].to_string() + "): " + problem;
    }
    if (!problems.empty()) return fail(ErrorCode::stop_error, std::move(problems));
    return {};
  }
  bool ends_with_launcher() const override { return true; }

 private:
  std::shared_ptr<ContextCore> core_;
  Hosts hosts_;
};

class LocalAllocator final : public Allocator {
 public:
  LocalAllocator(LocalPrograms programs, LocalOptions options)
      : programs_(std::move(programs)), options_(std::move(options)) {}

  Result<std::unique_ptr<Allocation>> allocate(Context& context, AllocationSpec spec) override {
    using Kind = AllocationEvent::Kind;
    const auto& core = context.core();
    if (auto fine = core->check_may_wait(); !fine) return fail(fine.error());
    for (const auto& [name, program] : programs_) {
      if (auto fine = mesh_proc::Runtime::check(program); !fine)
        return fail(fine.error().within("program \"" + name + "\""));
    }
    auto sources = ConfigSources::of_process();
    sources.flags.assign(core->options().settings.begin(), core->options().settings.end());
    sources.flags.insert(sources.flags.end(), options_.settings.begin(), options_.settings.end());
    sources.flags_name = "ContextOptions::settings";
    const auto config = Config::load(std::move(sources));
    if (!config) return fail(config.error());
    LocalHost::Options each{.config = *config, .keeper = {.programs = programs_}};
    ::pthread_sigmask(SIG_SETMASK, nullptr, &each.keeper.mask);

    const auto tell = teller(*core, spec);
    const auto end = Clock::now() + std::min<std::chrono::milliseconds>(options_.ready_limit,
                                                                        std::chrono::hours(24));
    const auto count = spec.extent.num_ranks();
    Hosts hosts;
    try {
      for (std::uint64_t rank = 0; rank < count; ++rank) {
        tell({Kind::created, rank, {}, {}});
        hosts.push_back(std::make_shared<LocalHost>(each));
      }
    } catch (const std::system_error& error) {
      return fail(ErrorCode::io_error, "cannot start a thread for host " +
                                           std::to_string(hosts.size()) + ": " + error.what());
    }
    std::vector<HostAddr> addresses;
    std::string problems;
    auto code = ErrorCode::none;
    for (std::uint64_t rank = 0; rank < count; ++rank) {
      const auto ready = hosts[rank]->wait_ready(end);
      if (ready) {
        tell({Kind::running, rank, *ready, {}});
        addresses.push_back(*ready);
        continue;
      }
      tell({Kind::failed, rank, {}, ready.error().to_string()});
      problems += (problems.empty() ? "host " : "; host ") + std::to_string(rank) + ": " +
                  ready.error().detail();
      code = ready.error().code();
    }
    if (!problems.empty()) return fail(code, std::move(problems));
    for (const auto& host : hosts) HostThreads::all().add(host);
    return std::make_unique<LocalAllocation>(core, std::move(spec.extent), std::move(addresses),
                                             std::move(hosts), tell);
  }

 private:
  LocalPrograms programs_;
  LocalOptions options_;
};

}  // namespace

std::unique_ptr<Allocator> local_procs_allocator(LocalPrograms programs, LocalOptions options) {
  return std::make_unique<LocalAllocator>(std::move(programs), std::move(options));
}

Result<HostMesh> local_procs(Context& context, ProcProgram program, LocalOptions options) {
  const auto extent = Extent::make({{"host", 1}});
  if (!extent) return fail(extent.error());
  LocalPrograms programs;
  programs.emplace("", std::move(program));
  return local_procs(context, std::move(programs), *extent, std::move(options));
}

Result<HostMesh> local_procs(Context& context, LocalPrograms programs, const Extent& hosts,
                             LocalOptions options) {
  auto made = local_procs_allocator(std::move(programs), std::move(options))
                  ->allocate(context, {.extent = hosts, .on_event = {}});
  if (!made) return fail(made.error());
  return HostMesh::allocate(context, "hosts", std::move(*made));
}

}  // namespace meshbus
