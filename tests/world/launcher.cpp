#include "tests/world/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "tests/world/session_options.h"

namespace meshbus::test {

TestLauncher::TestLauncher(Loop& loop, const std::string& endpoint, std::string name) {
  auto options = session_options(endpoint, hello_of(wire::PeerKind::launcher, name));
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  Dispatcher handlers;
  handlers
      .on<wire::StateChanged>(
          Role::host,
          [this](const Request&, const wire::StateChanged& message) { on_state_changed(message); })
      .on<wire::Output>(Role::host,
                        [this](const Request& request, const wire::Output& message) {
                          on_output(request, message);
                        })
      .on<wire::Log>(Role::host, [this](const Request& request, const wire::Log& message) {
        on_log(request, message);
      });
  bus_ =
      std::make_unique<Bus>(loop.reactor, std::move(options), std::move(handlers), Bus::Events());
}

void TestLauncher::on_state_changed(const wire::StateChanged& message) {
  ++state_messages;
  Mesh& mesh = meshes[message.mesh()->str()];
  if (message.ranks() != nullptr) {
    for (const auto* state : *message.ranks()) {
      Rank& rank = mesh[state->rank()];
      if (!rank.states.empty() && state->generation() == rank.states.back().generation()) {
        if (!message.snapshot())
          problems.push_back("rank " + std::to_string(state->rank()) +
                             ": a change that was told before");
        continue;
      }
      if (!rank.states.empty() && state->generation() < rank.states.back().generation())
        problems.push_back("rank " + std::to_string(state->rank()) + ": generation " +
                           std::to_string(state->generation()) + " after " +
                           std::to_string(rank.states.back().generation()));
      rank.states.push_back(*state);
    }
  }
  if (message.exit_reports() == nullptr) return;
  for (const auto* exit_report : *message.exit_reports()) {
    Rank& rank = mesh[exit_report->rank()];
    if (rank.exit_report && !message.snapshot())
      problems.push_back("rank " + std::to_string(exit_report->rank()) +
                         ": an exit report that was told before");
    // A subscriber that came after the end has not been told of it.
    if (!rank.states.empty() && !rank.has_ended())
      problems.push_back("rank " + std::to_string(exit_report->rank()) +
                         ": an exit report before the end");
    rank.exit_report.emplace();
    exit_report->UnPackTo(&*rank.exit_report);
  }
}

void TestLauncher::on_output(const Request& request, const wire::Output& message) {
  Mesh& mesh = meshes[message.mesh()->str()];
  wire::OutputTakenT taken;
  if (message.chunks() != nullptr) {
    for (const auto* chunk : *message.chunks()) {
      Rank& rank = mesh[chunk->rank()];
      std::string& text = chunk->stream() == wire::Stream::out ? rank.out : rank.err;
      if (chunk->offset() > text.size()) continue;  // it comes again
      const std::string data(chunk->data()->begin(), chunk->data()->end());
      const auto known = std::min<std::size_t>(data.size(), text.size() - chunk->offset());
      if (text.compare(chunk->offset(), known, data, 0, known) != 0)
        problems.push_back("rank " + std::to_string(chunk->rank()) +
                           ": other bytes at an offset that has come before");
      if (rank.output_ended && known < data.size())
        problems.push_back("rank " + std::to_string(chunk->rank()) + ": output after its end");
      text += data.substr(known);
      untaken += data.size() - known;
      taken.positions.emplace_back(chunk->rank(), text.size(), chunk->stream());
    }
  }
  if (message.ends() != nullptr) {
    for (const auto* end : *message.ends()) {
      Rank& rank = mesh[end->rank()];
      if (rank.out.size() != end->out() || rank.err.size() != end->err()) continue;
      rank.output_ended = true;
      taken.ended.push_back(end->rank());
    }
  }
  if (!takes_output) return;
  taken.mesh = message.mesh()->str();
  taken.bytes = std::exchange(untaken, 0);
  bus_->tell(Destination::back(request.envelope), std::move(taken));
}

}  // namespace meshbus::test
