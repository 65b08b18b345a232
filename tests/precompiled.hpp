#pragma once
// The headers that most tests include, compiled once for all tests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../src/precompiled.hpp"
