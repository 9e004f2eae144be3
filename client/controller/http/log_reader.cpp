#include "client/controller/http/log_reader.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/security/token.h"
#include "common/wire/control.h"
#include "wire/bus_generated.h"
#include "wire/logs_generated.h"

namespace meshbus {
namespace {

constexpr std::uint32_t kLogWindow = 256 * 1024;
constexpr std::chrono::seconds kAskLimit{5};
/// A host that is silent for so long is looked after.
constexpr std::chrono::seconds kSilence{1};
/// A host that does not answer for so long is given up.
constexpr std::chrono::seconds kPatience{30};

/// Whether the host may answer later.
bool may_mend(ErrorCode code) {
  return code == ErrorCode::timeout || code == ErrorCode::fate_unknown ||
         code == ErrorCode::queue_full || code == ErrorCode::host_unreachable ||
         code == ErrorCode::unroutable || code == ErrorCode::no_such_proc;
}

}  // namespace

LogReader::LogReader(Reactor& reactor, Options options, Events events)
    : reactor_(reactor), options_(std::move(options)), events_(std::move(events)) {
  for (const HostAddr& host : options_.hosts) {
    sources_.push_back(std::make_unique<Source>(Source{.host = host, .last = reactor_.now()}));
    open(*sources_.back());
  }
  timer_ = reactor_.after(kSilence, [this] { look_after(); });
}

LogReader::~LogReader() {
  reactor_.cancel(timer_);
}

void LogReader::open(Source& source) {
  Session::Options session;
  options_.reach(source.host, session);
  session.hello.peer = Name::make("client")->to_string();
  session.hello.kind = wire::PeerKind::launcher;
  session.hello.incarnation = random_u64();
  session.hello.pid = static_cast<std::uint32_t>(::getpid());
  Dispatcher handlers;
  handlers.on<wire::Log>(
      Role::host, [this, &source](const Request&, const wire::Log& log) { on_log(source, log); });
  Bus::Events events;
  events.on_up = [this, &source](const wire::Welcome&) {
    if (source.is_over) return;
    source.is_up = true;
    source.last = reactor_.now();
    ask(source);
  };
  events.on_down = [&source](const std::string& reason) {
    source.is_up = source.is_asked = source.is_streaming = false;
    source.problem = reason;
  };
  events.on_trouble = [&source](const std::string& reason) { source.problem = reason; };
  events.on_refused = [this, &source](const Error& error) { end(source, fail(error)); };
  source.bus =
      std::make_unique<Bus>(reactor_, std::move(session), std::move(handlers), std::move(events));
}

void LogReader::ask(Source& source) {
  const bool is_again = source.stream > 0;
  if (is_again) drop_stream(source);
  ++source.stream;
  wire::StreamLogsT order;
  order.mesh = options_.mesh;
  order.subscriber = source.bus->self()->to_string();
  order.stream = source.stream;
  if (options_.rank) order.ranks = {wire::RankInterval(*options_.rank, *options_.rank + 1)};
  // A stream that had no byte yet has no position: all of it is new.
  order.tail = is_again ? UINT64_MAX : options_.tail;
  order.follow = true;
  order.window = kLogWindow;
  for (const auto& [stream, offset] : source.positions)
    order.from.emplace_back(stream.first, offset, stream.second);
  source.is_asked = true;
  source.heard = source.taken = 0;
  source.bus->request(
      Destination::to_agent(source.host), std::move(order), kAskLimit,
      [this, &source, stream = source.stream](const Result<ControlMessage>& answer) {
        if (stream == source.stream) on_started(source, answer);
      });
}

void LogReader::on_started(Source& source, const Result<ControlMessage>& answer) {
  source.is_asked = false;
  if (source.is_over) return;
  if (!answer) {
    source.problem = answer.error().to_string();
    if (!may_mend(answer.error().code())) end(source, fail(answer.error()));
    return;
  }
  source.is_streaming = true;
  source.last = reactor_.now();
  const auto* const started = answer->body_as<wire::LogStarted>();
  if (started == nullptr || started->positions() == nullptr) return;
  for (const auto* position : *started->positions())
    source.positions.try_emplace({position->rank(), position->stream()}, position->offset());
}

void LogReader::on_log(Source& source, const wire::Log& log) {
  if (source.is_over || log.stream() != source.stream) return;
  // One that is missing comes again, and then those after it (wire::Log.since).
  if (log.sequence() != source.heard + 1 &&
      (log.sequence() != log.since() || log.since() <= source.heard))
    return;
  source.heard = log.sequence();
  source.last = reactor_.now();
  std::vector<Piece> pieces;
  const auto* const chunks = log.chunks();
  for (flatbuffers::uoffset_t i = 0; chunks != nullptr && i < chunks->size(); ++i) {
    const wire::LogChunk& chunk = *chunks->Get(i);
    std::string_view bytes(reinterpret_cast<const char*>(chunk.data()->data()),
                           chunk.data()->size());
    auto& position = source.positions[{chunk.rank(), chunk.stream()}];
    const auto known =
        std::min<std::uint64_t>(position - std::min(position, chunk.offset()), bytes.size());
    bytes.remove_prefix(static_cast<std::size_t>(known));
    if (bytes.empty()) continue;
    const auto offset = chunk.offset() + known;
    position = offset + bytes.size();
    pieces.push_back({.rank = chunk.rank(),
                      .is_error = chunk.stream() == wire::Stream::err,
                      .offset = offset,
                      .bytes = bytes});
  }
  if (!pieces.empty()) events_.on_pieces(pieces);
  if (log.done()) end(source, {});
}

void LogReader::look_after() {
  timer_ = reactor_.after(kSilence, [this] { look_after(); });
  const auto now = reactor_.now();
  for (const auto& source : sources_) {
    // While our own reader is slow there is nothing to hear.
    if (source->is_over || source->heard != source->taken) continue;
    const auto silence = now - source->last;
    if (silence >= kPatience) {
      end(*source, fail(ErrorCode::host_unreachable,
                        "host " + source->host.to_string() + " does not answer for " +
                            std::to_string(kPatience.count()) + " s" +
                            (source->problem.empty() ? "" : ": " + source->problem)));
    } else if (source->is_up && !source->is_asked && silence >= kSilence) {
      if (source->is_streaming)
        check(*source);
      else
        ask(*source);
    }
  }
}

void LogReader::check(Source& source) {
  wire::LogTakenT taken;
  taken.mesh = options_.mesh;
  taken.stream = source.stream;
  taken.sequence = source.taken;
  taken.resend = true;
  source.is_asked = true;
  source.bus->request(
      Destination::to_agent(source.host), std::move(taken), kAskLimit,
      [this, &source, stream = source.stream](const Result<ControlMessage>& answer) {
        if (source.is_over || stream != source.stream) return;
        source.is_asked = false;
        if (answer) {
          source.last = reactor_.now();
        } else if (answer.error().code() == ErrorCode::not_exist) {
          // Another life of that agent, or it took us for gone.
          source.is_streaming = false;
        } else {
          source.problem = answer.error().to_string();
          if (!may_mend(answer.error().code())) end(source, fail(answer.error()));
        }
      });
}

void LogReader::drop_stream(Source& source) {
  wire::StopLogsT stop;
  stop.mesh = options_.mesh;
  stop.stream = source.stream;
  source.bus->tell(Destination::to_agent(source.host), std::move(stop));
}

void LogReader::take() {
  for (const auto& source : sources_) {
    if (source->is_over || source->taken == source->heard) continue;
    source->taken = source->heard;
    source->last = reactor_.now();
    wire::LogTakenT taken;
    taken.mesh = options_.mesh;
    taken.stream = source->stream;
    taken.sequence = source->taken;
    source->bus->tell(Destination::to_agent(source->host), std::move(taken));
  }
}

void LogReader::end(Source& source, const Result<void>& how) {
  if (std::exchange(source.is_over, true)) return;
  if (source.stream > 0) drop_stream(source);  // so that the agent keeps nothing for us
  events_.on_end(source.host, how);
}

}  // namespace meshbus
