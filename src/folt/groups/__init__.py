from folt.groups.base import Element, Group
