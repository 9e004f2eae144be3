#include "agent/host/output/input_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace meshbus::host {

void InputWriter::write(Proc& proc, Bytes data, bool end, std::function<void(Result<void>)> done) {
  const std::string rank = "rank " + std::to_string(proc.rank()) + " of " + proc.mesh.name;
  InputPipe& input = proc.input;
  if (input.state == InputPipe::State::none)
    return done(fail(ErrorCode::refused,
                     rank + ": its stdin is not a pipe; name the rank in ProcSpec::input_ranks"));
  if (input.state == InputPipe::State::closed || proc.has_ended())
    return done(fail(ErrorCode::not_exist, rank + ": its stdin is closed"));
  if (input.done)
    return done(fail(ErrorCode::refused,
                     rank + ": another WriteInput is not answered yet; send one at a time"));
  input.pending = std::string(data);
  input.is_end_after = end;
  input.done = std::move(done);
  if (input.fd) push(proc);
}

void InputWriter::attach(Proc& proc, UniqueFd fd) {
  if (proc.input.state == InputPipe::State::closed) return on_closed_(proc);
  proc.input.fd = std::move(fd);
  if (proc.input.fd && proc.input.done) push(proc);
}

void InputWriter::push(Proc& proc) {
  InputPipe& input = proc.input;
  while (!input.pending.empty()) {
    const auto written = ::write(input.fd.get(), input.pending.data(), input.pending.size());
    if (written > 0) {
      input.pending.erase(0, static_cast<std::size_t>(written));
    } else if (written == 0 || errno == EAGAIN || errno == EWOULDBLOCK) {
      reactor_.watch(input.fd.get(), EPOLLOUT, [this, &proc](std::uint32_t) { push(proc); });
      return;
    } else if (errno != EINTR) {
      const std::string reason = std::strerror(errno);
      reactor_.forget(input.fd.get());
      input.fd.reset();
      input.state = InputPipe::State::closed;
      on_closed_(proc);
      return finish(proc, fail(ErrorCode::not_exist, "rank " + std::to_string(proc.rank()) +
                                                         " of " + proc.mesh.name +
                                                         " does not read its stdin: " + reason));
    }
  }
  reactor_.forget(input.fd.get());
  if (input.is_end_after) {
    input.fd.reset();
    input.state = InputPipe::State::closed;
    on_closed_(proc);
  }
  finish(proc, {});
}

void InputWriter::close(Proc& proc) {
  InputPipe& input = proc.input;
  if (input.fd) {
    reactor_.forget(input.fd.get());
    input.fd.reset();
  }
  if (input.state == InputPipe::State::open) input.state = InputPipe::State::closed;
  if (input.done)
    finish(proc, fail(ErrorCode::not_exist, "rank " + std::to_string(proc.rank()) + " of " +
                                                proc.mesh.name + " has ended"));
}

void InputWriter::finish(Proc& proc, Result<void> result) {
  proc.input.pending.clear();
  if (const auto done = std::exchange(proc.input.done, nullptr)) done(std::move(result));
}

}  // namespace meshbus::host
