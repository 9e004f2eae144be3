#include "client/src/hands/rank_exec.h"

#include "client/src/context/context_core.h"
#include "common/base/os_error.h"
#include "wire/hands_generated.h"

namespace meshbus {

Result<RankExec> RankExec::start(const std::shared_ptr<ContextCore>& core, ExecRequest request) {
  auto way = core->find_connection(core, request.host);
  if (!way) return fail(way.error());
  auto stream = std::make_shared<ExecStream>(std::move(request));
  if (!stream->mailbox().is_open()) return fail(ErrorCode::io_error, os_error("a mailbox"));
  core->post([connection = way->get(), stream] {
    if (connection->gateway().bus() == nullptr)
      return stream->on_lost(connection->gateway().closed_error().to_string());
    connection->updates().execs().add(stream);
  });
  return RankExec(std::move(*way), std::move(stream));
}

RankExec& RankExec::operator=(RankExec&& other) noexcept {
  if (this == &other) return *this;
  drop();
  way_ = std::move(other.way_);
  stream_ = std::move(other.stream_);
  return *this;
}

void RankExec::drop() {
  if (stream_ == nullptr) return;
  way_.core()->post([connection = way_.get(), stream = std::exchange(stream_, nullptr)] {
    stream->stop();
    connection->updates().execs().remove(*stream);
  });
}

void RankExec::taken(std::uint64_t sequence) {
  way_.core()->post([stream = stream_, sequence] { stream->taken(sequence); });
}

void RankExec::write(std::string data, bool end) {
  stream_->mailbox().set_writing(true);
  way_.core()->post([stream = stream_, data = std::move(data), end]() mutable {
    stream->write(std::move(data), end);
  });
}

void RankExec::resize(std::uint16_t rows, std::uint16_t columns) {
  wire::ExecControlT control;
  control.rows = rows;
  control.columns = columns;
  way_.core()->post([stream = stream_, control] { stream->control(control); });
}

void RankExec::signal(int signal) {
  wire::ExecControlT control;
  control.signal = static_cast<std::uint8_t>(signal);
  way_.core()->post([stream = stream_, control] { stream->control(control); });
}

void RankExec::hang_up() {
  wire::ExecControlT control;
  control.end = true;
  way_.core()->post([stream = stream_, control] { stream->control(control); });
}

}  // namespace meshbus
