#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus shutdown`
void add_shutdown(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
