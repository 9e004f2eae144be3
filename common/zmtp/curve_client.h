#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/zmtp/curve_key.h"
#include "common/zmtp/curve_traffic.h"
#include "common/zmtp/mechanism.h"

namespace meshbus {

/// The connecting end of CURVE (RFC 26): HELLO, then INITIATE with the proof of its key.
class CurveClient : public Mechanism {
 public:
  /// `server`: the key that the other end must have. `socket_type`: of this end.
  CurveClient(CurveKeyPair own, const CurveKey& server, std::string_view socket_type);

  std::string_view name() const noexcept override { return "CURVE"; }
  std::string begin() override;
  std::string on_command(std::string_view command) override;
  CurveTraffic* traffic() noexcept override { return traffic_ ? &*traffic_ : nullptr; }

 private:
  std::string on_welcome(std::string_view command);
  std::string on_ready(std::string_view command);
  std::string on_error(std::string_view command);

  CurveKeyPair own_;
  CurveKey server_;
  std::string_view socket_type_;
  /// The pair of this connection alone.
  CurveKeyPair transient_ = CurveKeyPair::make();
  /// Between the two transient pairs; nothing before WELCOME.
  std::optional<CurveKey> shared_;
  std::uint64_t next_number_ = 1;
  std::optional<CurveTraffic> traffic_;
};

}  // namespace meshbus
