#pragma once

#include <string>
#include <string_view>

#include "common/zmtp/mechanism.h"

namespace meshbus {

/// Security NULL: each end says READY, and messages go as they are.
class NullMechanism : public Mechanism {
 public:
  /// `socket_type`: of this end, "DEALER" or "ROUTER".
  explicit NullMechanism(std::string_view socket_type) : socket_type_(socket_type) {}

  std::string_view name() const noexcept override { return "NULL"; }
  std::string begin() override;
  std::string on_command(std::string_view command) override;

 private:
  std::string_view socket_type_;
};

}  // namespace meshbus
