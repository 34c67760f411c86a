import pytest


def pytest_addoption(parser):
    parser.addoption("--fail-on-skip", action="store_true", help="a skipped test fails: tools must be there")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped and item.config.getoption("--fail-on-skip"):
        report.outcome = "failed"
