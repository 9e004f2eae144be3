#include "client/controller/http/log_reader.h"

#include <unistd.h>

#include <utility>

#include "common/security/token.h"
#include "common/wire/control.h"
#include "wire/bus_generated.h"
#include "wire/logs_generated.h"

namespace meshbus {
namespace {

constexpr std::uint64_t kStream = 1;
constexpr std::uint32_t kLogWindow = 256 * 1024;
constexpr std::chrono::seconds kStartLimit{5};

}  // namespace

LogReader::LogReader(Reactor& reactor, zmq::context_t& context, Options options, Events events)
    : reactor_(reactor),
      context_(context),
      options_(std::move(options)),
      events_(std::move(events)) {
  for (const HostAddr& host : options_.hosts) {
    sources_.push_back(std::make_unique<Source>(Source{.host = host, .bus = nullptr}));
    open(*sources_.back());
  }
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
  events.on_up = [this, &source](const wire::Welcome&) { ask(source); };
  events.on_down = [this, &source](const std::string& reason) {
    end(source, fail(ErrorCode::host_unreachable, reason));
  };
  events.on_trouble = events.on_down;
  events.on_refused = [this, &source](const Error& error) { end(source, fail(error)); };
  source.bus = std::make_unique<Bus>(reactor_, context_, std::move(session), std::move(handlers),
                                     std::move(events));
}

void LogReader::ask(Source& source) {
  wire::StreamLogsT order;
  order.mesh = options_.mesh;
  order.subscriber = source.bus->self()->to_string();
  order.stream = kStream;
  if (options_.rank) order.ranks = {wire::RankInterval(*options_.rank, *options_.rank + 1)};
  order.tail = options_.tail;
  order.follow = true;
  order.window = kLogWindow;
  source.bus->request(Destination::to_agent(source.host), std::move(order), kStartLimit,
                      [this, &source](const Result<ControlMessage>& answer) {
                        if (!answer) end(source, fail(answer.error()));
                      });
}

void LogReader::on_log(Source& source, const wire::Log& log) {
  if (source.is_over || log.stream() != kStream) return;
  // One that is missing comes again, and then those after it (wire::Log.since).
  if (log.sequence() != source.heard + 1 && log.sequence() != log.since()) return;
  source.heard = log.sequence();
  std::vector<Piece> pieces;
  const auto* const chunks = log.chunks();
  for (flatbuffers::uoffset_t i = 0; chunks != nullptr && i < chunks->size(); ++i) {
    const wire::LogChunk& chunk = *chunks->Get(i);
    const auto* const data = chunk.data();
    pieces.push_back({.rank = chunk.rank(),
                      .is_error = chunk.stream() == wire::Stream::err,
                      .offset = chunk.offset(),
                      .bytes = {reinterpret_cast<const char*>(data->data()), data->size()}});
  }
  if (!pieces.empty()) events_.on_pieces(pieces);
  if (log.done()) end(source, {});
}

void LogReader::take() {
  for (const auto& source : sources_) {
    if (source->is_over || source->taken == source->heard) continue;
    source->taken = source->heard;
    wire::LogTakenT taken;
    taken.mesh = options_.mesh;
    taken.stream = kStream;
    taken.sequence = source->taken;
    source->bus->tell(Destination::to_agent(source->host), std::move(taken));
  }
}

void LogReader::end(Source& source, const Result<void>& how) {
  if (std::exchange(source.is_over, true)) return;
  events_.on_end(source.host, how);
}

}  // namespace meshbus
