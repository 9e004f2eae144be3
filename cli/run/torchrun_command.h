#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus torchrun`
void add_torchrun(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
