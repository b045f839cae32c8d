"""The keys at the top of a spec, a module each: its model, its rules that span fields, and its words for the reference.

The modules are found by themselves: a new key is a new module here with one `SpecKey`. Its value is then
`CampaignSpec.extensions[name]`, unless `CampaignSpec` has a field of its name.
"""
