#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/zmtp/curve_key.h"
#include "common/zmtp/curve_traffic.h"
#include "common/zmtp/mechanism.h"

namespace meshbus {

/// The listening end of CURVE (RFC 26). What it must remember between WELCOME and INITIATE travels
/// with the other end as a cookie. Each of HELLO and INITIATE costs two multiplications on the
/// curve (some 100 µs); a forged cookie costs none.
class CurveServer : public Mechanism {
 public:
  /// `socket_type`: of this end.
  CurveServer(CurveKeyPair own, std::string_view socket_type);

  std::string_view name() const noexcept override { return "CURVE"; }
  bool is_server() const noexcept override { return true; }
  std::string begin() override { return {}; }
  std::string on_command(std::string_view command) override;
  std::string accept() override;
  std::string refuse() override;
  std::string turn_away() override;
  std::string peer_key() const override { return client_.to_text(); }
  CurveTraffic* traffic() noexcept override { return traffic_ ? &*traffic_ : nullptr; }

 private:
  std::string on_hello(std::string_view command);
  std::string on_initiate(std::string_view command);
  /// Whether the holder of client_ vouches for the transient key, and for this server.
  bool is_vouched_for(std::string_view vouch, const CurveKey& transient, const CurveKey& secret);

  CurveKeyPair own_;
  std::string_view socket_type_;
  /// Opens the cookie; nothing before HELLO and after INITIATE.
  std::optional<CurveKey> cookie_key_;
  /// The proven key of the other end.
  CurveKey client_;
  std::optional<CurveKey> shared_;
  std::uint64_t hello_number_ = 0;
  std::uint64_t last_number_ = 0;
  std::optional<CurveTraffic> traffic_;
};

}  // namespace meshbus
