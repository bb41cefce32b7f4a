"""Prints the installed version of Slicewise."""

import slicewise as sw


def main() -> None:
    print(f"Slicewise {sw.__version__}")


if __name__ == "__main__":
    main()
