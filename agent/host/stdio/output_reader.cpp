#include "agent/host/stdio/output_reader.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace meshbus::host {
namespace {

/// The most that a pipe can hold for an ordinary user (/proc/sys/fs/pipe-max-size): what finish() reads at most.
constexpr std::size_t kLargestPipe = 1024 * 1024;
constexpr int kResumedAtOnce = 8;

}  // namespace

void OutputReader::attach(Proc& proc, UniqueFd out, UniqueFd err) {
  proc.out.fd = std::move(out);
  proc.err.fd = std::move(err);
  for (OutputPipe* pipe : {&proc.out, &proc.err}) {
    if (pipe->fd) watch(proc, *pipe);
  }
  if (!proc.out.fd && !proc.err.fd) close(proc);
}

void OutputReader::take_over(Proc& proc) {
  for (OutputPipe* pipe : {&proc.out, &proc.err}) {
    if (!proc.certified) pipe->tail.append(spool_.text(proc.slot, pipe->stream, 0));
    if (!proc.mesh.relaying) continue;
    const auto released = spool_.released(proc.slot, pipe->stream);
    proc.mesh.relay.start_at(proc.rank(), pipe->stream, released);
    proc.mesh.relay.add(proc.rank(), pipe->stream, spool_.text(proc.slot, pipe->stream, released));
  }
  if (!proc.certified) return;
  proc.output_ended = true;
  if (proc.mesh.relaying) proc.mesh.relay.end_rank(proc.rank());
}

void OutputReader::watch(Proc& proc, OutputPipe& pipe) {
  pipe.paused = false;
  reactor_.watch(pipe.fd.get(), EPOLLIN, [this, &proc, &pipe](std::uint32_t) { on_readable(proc, pipe); });
}

void OutputReader::on_readable(Proc& proc, OutputPipe& pipe) {
  if (proc.mesh.relaying && !proc.mesh.relay.wants_more()) {
    // Not watched at all, because a pipe that is at its end is always ready.
    reactor_.forget(pipe.fd.get());
    pipe.paused = true;
    proc.mesh.paused.emplace_back(proc.rank(), pipe.stream);
    return;
  }
  std::size_t bytes = 0;
  if (read(proc, pipe, buffer_.size(), bytes) == Outcome::end) end(proc, pipe);
}

OutputReader::Outcome OutputReader::read(Proc& proc, OutputPipe& pipe, std::size_t most, std::size_t& bytes) {
  const ssize_t got = spool_.read(proc.slot, pipe.stream, pipe.fd.get(), buffer_.data(), std::min(most, buffer_.size()));
  bytes = got > 0 ? static_cast<std::size_t>(got) : 0;
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Outcome::nothing_now : Outcome::end;
  if (got == 0) return Outcome::end;
  const Bytes taken(buffer_.data(), bytes);
  pipe.tail.append(taken);
  if (proc.mesh.relaying) {
    proc.mesh.relay.add(proc.rank(), pipe.stream, taken);
  } else {
    spool_.release_all(proc.slot, pipe.stream);
  }
  return Outcome::some;
}

void OutputReader::take_available(Proc& proc, OutputPipe& pipe) {
  int available = 0;
  if (!pipe.fd || ioctl(pipe.fd.get(), FIONREAD, &available) != 0) return;
  auto left = static_cast<std::size_t>(std::max(available, 0));
  while (left > 0) {
    std::size_t bytes = 0;
    const auto outcome = read(proc, pipe, left, bytes);
    if (outcome == Outcome::end) end(proc, pipe);
    if (outcome != Outcome::some) return;
    left -= bytes;
  }
}

void OutputReader::drain(Proc& proc) {
  take_available(proc, proc.out);
  take_available(proc, proc.err);
}

void OutputReader::finish(Proc& proc) {
  for (OutputPipe* pipe : {&proc.out, &proc.err}) {
    std::size_t left = kLargestPipe;
    while (pipe->fd && left > 0) {
      std::size_t bytes = 0;
      const auto outcome = read(proc, *pipe, left, bytes);
      if (outcome == Outcome::end) end(proc, *pipe);
      if (outcome == Outcome::nothing_now) break;
      left -= bytes;
    }
  }
}

void OutputReader::end(Proc& proc, OutputPipe& pipe) {
  reactor_.forget(pipe.fd.get());
  pipe.fd.reset();
  pipe.paused = false;
  if (proc.mesh.relaying) proc.mesh.relay.end_stream(proc.rank(), pipe.stream);
  if (!proc.out.fd && !proc.err.fd) close(proc);
}

void OutputReader::close(Proc& proc) {
  if (proc.output_ended) return;
  proc.output_ended = true;
  for (OutputPipe* pipe : {&proc.out, &proc.err}) {
    if (!pipe->fd) continue;
    reactor_.forget(pipe->fd.get());
    pipe->fd.reset();
    pipe->paused = false;
  }
  if (proc.mesh.relaying) proc.mesh.relay.end_rank(proc.rank());
}

void OutputReader::resume(Mesh& mesh) {
  // A few at a time, in the order in which they had to wait: each may fill a quarter of what the owner takes ahead.
  for (int i = 0; i < kResumedAtOnce && !mesh.paused.empty() && (!mesh.relaying || mesh.relay.wants_more()); ++i) {
    const auto [rank, stream] = mesh.paused.front();
    mesh.paused.pop_front();
    const auto found = mesh.procs.find(rank);
    if (found == mesh.procs.end()) continue;
    OutputPipe& pipe = stream == wire::Stream::out ? found->second->out : found->second->err;
    if (pipe.paused) watch(*found->second, pipe);
  }
}

void OutputReader::stop_relaying(Mesh& mesh) {
  mesh.relaying = false;
  mesh.relay = OutputRelay();
  while (!mesh.paused.empty()) resume(mesh);
}

}  // namespace meshbus::host
