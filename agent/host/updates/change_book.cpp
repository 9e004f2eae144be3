#include "agent/host/updates/change_book.h"

#include <functional>

namespace meshbus::host {
namespace {

/// Two states of a proc or a mesh that differ have different sums, as good as always.
class Sum {
 public:
  Sum& add(std::uint64_t value) {
    sum_ = (sum_ ^ value) * 0x9E3779B97F4A7C15ULL;
    sum_ ^= sum_ >> 32;
    return *this;
  }
  std::uint64_t value() const noexcept { return sum_; }

 private:
  std::uint64_t sum_ = 1;
};

std::uint64_t sum_of(const Proc& proc) {
  const auto& state = proc.state.to_wire();
  const auto& seen = proc.sample.seen;
  return Sum()
      .add(state.incarnation())
      .add(state.generation())
      .add(static_cast<std::uint64_t>(proc.trouble.trouble()))
      .add(static_cast<std::uint64_t>(proc.trouble.since_ns()))
      .add(proc.exit.report() != nullptr ? 1 : 0)
      .add(seen.user_us() + seen.system_us())
      .add(seen.rss_bytes())
      .add(seen.threads())
      .add(seen.descriptors())
      .add(seen.load() > 0 ? 1 : 0)
      .add(proc.output.out.tail.end())
      .add(proc.output.err.tail.end())
      .value();
}

std::uint64_t sum_of(const Mesh& mesh) {
  return Sum()
      .add(std::hash<std::string>()(mesh.ownership.owner().to_string()))
      .add(mesh.ownership.is_gone() ? 1 : 0)
      .add(mesh.ownership.may_restart() ? 1 : 0)
      .add(mesh.ownership.stopped().size())
      .add(mesh.spec.revision)
      .value();
}

}  // namespace

void ChangeBook::look(const ProcTable::Meshes& meshes) {
  for (const auto& [name, mesh] : meshes) {
    names_.insert(name);
    if (const auto sum = sum_of(*mesh); sum != mesh->stamp.sum)
      mesh->stamp = {.sum = sum, .changed = ++sequence_};
    for (const auto& [rank, proc] : mesh->procs) {
      const auto sum = sum_of(*proc);
      if (sum == proc->stamp.sum) continue;
      proc->stamp.sum = sum;
      proc->stamp.changed = ++sequence_;
      mesh->stamp.changed = sequence_;
      const auto err = proc->output.err.tail.end();
      proc->stamp.is_err_last = err != proc->stamp.err_end || proc->output.out.tail.end() == 0;
      proc->stamp.err_end = err;
    }
  }
  if (names_.size() == meshes.size()) return;
  for (auto name = names_.begin(); name != names_.end();) {
    if (meshes.contains(*name)) {
      ++name;
      continue;
    }
    forgotten_.emplace_back(++sequence_, *name);
    name = names_.erase(name);
    if (forgotten_.size() <= kMostForgotten) continue;
    known_since_ = forgotten_.front().first;
    forgotten_.pop_front();
  }
}

std::vector<std::string> ChangeBook::forgotten_after(std::uint64_t since) const {
  std::vector<std::string> names;
  for (const auto& [sequence, name] : forgotten_) {
    if (sequence > since && !names_.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace meshbus::host
