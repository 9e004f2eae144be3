// The allocators of this library: processes of this machine, and machines that a command reaches.
#include <utility>

#include "client/src/allocate/process_allocation.h"
#include "client/src/context/check_owner.h"
#include "client/src/context/context_core.h"
#include "client/src/launch/remote_start.h"
#include "common/security/keys.h"

namespace meshbus {
namespace {

using Where = ProcessAllocation::Where;
using Made = Result<std::unique_ptr<Allocation>>;

std::vector<std::string> host_arguments(const ContextOptions& context, const HostOptions& options) {
  std::vector<std::string> arguments;
  const auto add = [&arguments](std::string flag, std::string value) {
    arguments.push_back(std::move(flag));
    arguments.push_back(std::move(value));
  };
  if (!options.containment.empty()) add("--containment", options.containment);
  if (!options.run_dir.empty()) add("--run-dir", options.run_dir);
  for (const auto& [key, value] : context.settings) add("--set", key + "=" + value);
  for (const auto& [key, value] : options.settings) add("--set", key + "=" + value);
  return arguments;
}

std::string starting(std::uint64_t count) {
  return "starting " + std::to_string(count) + (count == 1 ? " host" : " hosts");
}

class ProcessAllocator final : public Allocator {
 public:
  ProcessAllocator(HostOptions options, bool is_one)
      : options_(std::move(options)), is_one_(is_one) {}

  Made allocate(Context& context, AllocationSpec spec) override {
    const auto& core = context.core();
    if (auto fine = check_owner(core); !fine) return fail(fine.error());
    const auto count = spec.extent.num_ranks();
    if (is_one_ && count != 1)
      return fail(ErrorCode::configuration_error,
                  "a local allocator makes one host, not " + std::to_string(count));
    std::vector<std::shared_ptr<LaunchedHost>> processes;
    const auto tell = teller(*core, spec);
    if (count != 0) {
      const auto program = find_meshbus_program(options_.program);
      if (!program) return fail(program.error());
      auto started = LaunchedHost::start(*program, host_arguments(core->options(), options_), count,
                                         options_.ready_limit, tell);
      if (!started) return fail(started.error().within(starting(count)));
      processes = std::move(*started);
    }
    return std::make_unique<ProcessAllocation>(core, std::move(spec.extent), std::move(processes),
                                               Where::here, tell);
  }

 private:
  HostOptions options_;
  bool is_one_;
};

class RemoteAllocator final : public Allocator {
 public:
  RemoteAllocator(std::vector<RemoteHost> machines, HostOptions options)
      : machines_(std::move(machines)), options_(std::move(options)) {}

  Made allocate(Context& context, AllocationSpec spec) override {
    const auto& core = context.core();
    if (auto fine = check_owner(core); !fine) return fail(fine.error());
    const auto count = spec.extent.num_ranks();
    if (count > machines_.size())
      return fail(ErrorCode::configuration_error,
                  std::to_string(count) + " hosts are wanted, and there are " +
                      std::to_string(machines_.size()) + " machines");
    const std::vector<RemoteHost> machines(machines_.begin(),
                                           machines_.begin() + static_cast<std::ptrdiff_t>(count));
    // For these hosts and this launcher alone, and gone with them.
    const auto host_keys = KeyPair::make();
    const auto own_keys = KeyPair::make();
    if (!host_keys || !own_keys) return fail(host_keys ? own_keys.error() : host_keys.error());
    RemoteOrder order{{},
                      options_.containment,
                      host_keys->public_key,
                      host_keys->secret_key,
                      own_keys->public_key};
    for (const auto& [key, value] : core->options().settings)
      order.settings.push_back(key + "=" + value);
    for (const auto& [key, value] : options_.settings) order.settings.push_back(key + "=" + value);
    const auto tell = teller(*core, spec);
    auto processes = start_remote(machines, order, options_.ready_limit, tell);
    if (!processes) return fail(processes.error().within(starting(count)));
    for (const auto& process : *processes)
      core->ways().set(process->announcement().host, {{},
                                                      CurveKeys{own_keys->public_key,
                                                                own_keys->secret_key,
                                                                {host_keys->public_key},
                                                                "the key of this launch"}});
    return std::make_unique<ProcessAllocation>(core, std::move(spec.extent), std::move(*processes),
                                               Where::elsewhere, tell);
  }

 private:
  std::vector<RemoteHost> machines_;
  HostOptions options_;
};

}  // namespace

std::unique_ptr<Allocator> process_allocator(HostOptions options) {
  return std::make_unique<ProcessAllocator>(std::move(options), /*is_one=*/false);
}

std::unique_ptr<Allocator> local_allocator(HostOptions options) {
  return std::make_unique<ProcessAllocator>(std::move(options), /*is_one=*/true);
}

std::unique_ptr<Allocator> remote_allocator(std::vector<RemoteHost> machines, HostOptions options) {
  return std::make_unique<RemoteAllocator>(std::move(machines), std::move(options));
}

}  // namespace meshbus
